package mesh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/locusrun/locus/certs"
)

func TestCloseLetsCallsEnd(t *testing.T) {
	w := newWorld(t)
	started, release := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	b := w.node("b", map[string]Method{"slow": method(Data, func(_ context.Context, r []byte) ([]byte, error) {
		if first.Swap(true) {
			return nil, &Error{Code: "early", Message: "the close has not begun"}
		}
		close(started)
		<-release
		return r, nil
	})}, func(c *Config) { c.Grace = 30 * time.Second })
	a := w.node("a", nil)
	result := make(chan error, 1)
	go func() {
		reply, err := a.Call(within(t), "b", "slow", bytes.Repeat([]byte{7}, 500<<10))
		if err == nil && len(reply) != 500<<10 {
			err = fmt.Errorf("%d bytes", len(reply))
		}
		result <- err
	}()
	<-started
	closed := make(chan error, 1)
	go func() { closed <- b.Close() }()
	// A new call is refused, whether it takes the old connection or a new one.
	var lost *UnreachableError
	for {
		_, err := a.Call(within(t), "b", "slow", nil)
		if early := (*Error)(nil); errors.As(err, &early) && early.Code == "early" {
			continue
		}
		if !errors.As(err, &lost) {
			t.Fatalf("during the close: %v", err)
		}
		if errors.Is(err, ErrDraining) {
			if lost.Sent {
				t.Fatalf("refused, but perhaps done: %v", err)
			}
			break
		}
	}
	// And from somebody who has no connection yet.
	if _, err := w.node("c", nil).Call(within(t), "b", "slow", nil); !errors.Is(err, ErrDraining) || !errors.As(err, &lost) || lost.Sent {
		t.Fatalf("a new caller: %v", err)
	}
	close(release)
	if err := <-result; err != nil {
		t.Fatalf("the call that ran: %v", err)
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
}

func TestCloseCancelsWhatDoesNotEnd(t *testing.T) {
	w := newWorld(t)
	wait, started, ended := waits(Data)
	b := w.node("b", map[string]Method{"wait": wait}, func(c *Config) { c.Grace = time.Second })
	a := w.node("a", nil)
	result := make(chan error, 1)
	go func() {
		_, err := a.Call(within(t), "b", "wait", nil)
		result <- err
	}()
	<-started
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if cause := <-ended; !errors.Is(cause, ErrClosed) {
		t.Fatalf("handler: %v", cause)
	}
	var lost *UnreachableError
	var told *Error
	if err := <-result; !(errors.As(err, &lost) && lost.Sent) && !errors.As(err, &told) {
		t.Fatalf("caller: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal("second close:", err)
	}
	if _, err := b.Call(within(t), "a", "x", nil); !errors.Is(err, ErrClosed) {
		t.Fatalf("call of a closed mesh: %v", err)
	}
}

func TestDropRevoked(t *testing.T) {
	w := newWorld(t)
	wait, started, ended := waits(Data)
	b := w.node("b", map[string]Method{"wait": wait, "echo": method(Control, echo)})
	a, c := w.node("a", nil), w.node("c", nil)
	result := make(chan error, 1)
	go func() {
		_, err := a.Call(within(t), "b", "wait", nil)
		result <- err
	}()
	<-started
	if _, err := c.Call(within(t), "b", "echo", nil); err != nil {
		t.Fatal(err)
	}
	b.SetRevoked(func(id certs.Identity) bool { return id.ID == "a" })
	if err := <-result; !errors.Is(err, ErrRevoked) {
		t.Fatalf("running call: %v", err)
	}
	if cause := <-ended; cause == nil {
		t.Fatal("no cause")
	}
	if _, err := a.Call(within(t), "b", "echo", nil); !errors.Is(err, ErrRevoked) {
		t.Fatalf("new call: %v", err)
	}
	if _, err := b.Call(within(t), "a", "echo", nil); !errors.Is(err, ErrRevoked) {
		t.Fatalf("call of a revoked one: %v", err)
	}
	if _, err := c.Call(within(t), "b", "echo", nil); err != nil {
		t.Fatal("another peer:", err)
	}
}
