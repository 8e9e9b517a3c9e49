package mesh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/locusrun/locus/certs"
)

func TestCall(t *testing.T) {
	w := newWorld(t)
	w.node("b", map[string]Method{"echo": method(Data, echo)})
	a := w.node("a", nil)
	noise := make([]byte, MaxFrame)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	for _, message := range [][]byte{
		{}, []byte("x"), bytes.Repeat([]byte("ab"), 32), bytes.Repeat([]byte("compress me "), 5000),
		noise[:100<<10], noise, make([]byte, MaxFrame),
	} {
		got, err := a.Call(within(t), "b", "echo", message)
		if err != nil || !bytes.Equal(got, message) {
			t.Fatalf("%d bytes: got %d bytes, %v", len(message), len(got), err)
		}
	}
	if _, err := a.Call(within(t), "b", "echo", make([]byte, MaxFrame+1)); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("too large: %v", err)
	}
}

func TestCallsAtTheSameTime(t *testing.T) {
	w := newWorld(t)
	w.node("b", map[string]Method{"echo": method(Data, echo)})
	a := w.node("a", nil)
	var wg sync.WaitGroup
	for i := range 300 {
		wg.Go(func() {
			want := fmt.Sprint("call ", i)
			got, err := a.Call(within(t), "b", "echo", []byte(want))
			if err != nil || string(got) != want {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	wg.Wait()
	if n := len(a.Peers()); n != 1 {
		t.Fatalf("%d connections, for one class to one peer", n)
	}
}

func TestErrorsOfHandlers(t *testing.T) {
	w := newWorld(t)
	told := &Error{Code: "no_room", Message: "full", Data: []byte{1, 2, 3}}
	w.node("b", map[string]Method{
		"told":   method(Data, func(context.Context, []byte) ([]byte, error) { return nil, fmt.Errorf("in vain: %w", told) }),
		"plain":  method(Data, func(context.Context, []byte) ([]byte, error) { return nil, errors.New("plain text") }),
		"panics": method(Data, func(context.Context, []byte) ([]byte, error) { panic("at the disco") }),
		"silent": {Roles: []certs.Role{certs.RoleNode}, Handle: func(context.Context, *Stream) error { return nil }},
		"long":   method(Data, func(context.Context, []byte) ([]byte, error) { return nil, errors.New(strings.Repeat("x", 1<<20)) }),
		"huge": method(Data, func(context.Context, []byte) ([]byte, error) {
			return nil, &Error{Code: "x", Data: make([]byte, MaxFrame+1)}
		}),
		"largest": method(Data, func(context.Context, []byte) ([]byte, error) {
			return nil, &Error{Code: "x", Data: make([]byte, MaxFrame)}
		}),
		"unread": {Roles: []certs.Role{certs.RoleNode}, Handle: func(context.Context, *Stream) error {
			return &Error{Code: "no"} // without a look at the request
		}},
		"echo": method(Data, echo),
	})
	a := w.node("a", nil)
	for name, code := range map[string]string{"plain": CodeInternal, "panics": CodeInternal, "long": CodeInternal, "huge": CodeInternal, "largest": "x", "unread": "no", "told": "no_room"} {
		_, err := a.Call(within(t), "b", name, make([]byte, 700<<10))
		var got *Error
		if !errors.As(err, &got) || got.Code != code {
			t.Fatalf("%s: %v", name, err)
		}
		if name == "told" && (got.Message != "full" || !bytes.Equal(got.Data, told.Data)) {
			t.Fatalf("told: %+v", got)
		}
		if name == "largest" && len(got.Data) != MaxFrame {
			t.Fatalf("largest: %d bytes", len(got.Data))
		}
	}
	var lost *UnreachableError
	if _, err := a.Call(within(t), "b", "silent", nil); !errors.As(err, &lost) || !lost.Sent || !errors.Is(err, ErrProtocol) {
		t.Fatalf("silent: %v", err)
	}
	// And none of them has harmed the connection.
	if got, err := a.Call(within(t), "b", "echo", []byte("still")); err != nil || string(got) != "still" {
		t.Fatalf("after: %q, %v", got, err)
	}
	if n := len(a.Peers()); n != 1 {
		t.Fatalf("%d connections", n)
	}
}

func TestMessagesBothWays(t *testing.T) {
	w := newWorld(t)
	w.node("b", map[string]Method{"shout": {Roles: []certs.Role{certs.RoleNode}, Handle: func(_ context.Context, s *Stream) error {
		if s.Peer().ID != "a" {
			return fmt.Errorf("called by %s", s.Peer())
		}
		for {
			message, err := s.Receive()
			if errors.Is(err, io.EOF) {
				return s.Send([]byte("bye"))
			}
			if err != nil {
				return err
			}
			if err := s.Send(bytes.ToUpper(message)); err != nil {
				return err
			}
		}
	}}})
	a := w.node("a", nil)
	s, err := a.Stream(within(t), "b", "shout")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Cancel()
	for i := range 100 {
		if err := s.Send(fmt.Appendf(nil, "m%d", i)); err != nil {
			t.Fatal(err)
		}
		got, err := s.Receive()
		if err != nil || string(got) != fmt.Sprintf("M%d", i) {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Receive(); err != nil || string(got) != "bye" {
		t.Fatalf("%q, %v", got, err)
	}
	for range 2 {
		if _, err := s.Receive(); err != io.EOF {
			t.Fatalf("end: %v", err)
		}
	}
}

// Compressible and incompressible messages on one stream.
func TestMixedMessages(t *testing.T) {
	w := newWorld(t)
	w.node("b", map[string]Method{"back": {Roles: []certs.Role{certs.RoleNode}, Handle: func(_ context.Context, s *Stream) error {
		for {
			message, err := s.Receive()
			if errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			if err := s.Send(message); err != nil {
				return err
			}
		}
	}}})
	a := w.node("a", nil)
	s, err := a.Stream(within(t), "b", "back")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Cancel()
	for i := range 60 {
		message := noise(20<<10 + i)
		if i%3 == 0 || i > 40 {
			message = bytes.Repeat([]byte{byte(i)}, 20<<10)
		}
		if err := s.Send(message); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Receive(); err != nil || !bytes.Equal(got, message) {
			t.Fatalf("message %d: %d bytes, %v", i, len(got), err)
		}
	}
}

// waits returns a method whose handler reports that it has started, and the cause with
// which its context ended.
func waits(class Class) (m Method, started <-chan struct{}, ended <-chan error) {
	s, e := make(chan struct{}, 100), make(chan error, 100)
	return Method{Roles: []certs.Role{certs.RoleNode}, Class: class, Handle: func(ctx context.Context, _ *Stream) error {
		s <- struct{}{}
		<-ctx.Done()
		e <- context.Cause(ctx)
		return context.Cause(ctx)
	}}, s, e
}

func TestCancelReachesTheHandler(t *testing.T) {
	w := newWorld(t)
	wait, started, ended := waits(Data)
	w.node("b", map[string]Method{"wait": wait})
	a := w.node("a", nil)

	why := errors.New("changed my mind")
	ctx, cancel := context.WithCancelCause(within(t))
	result := make(chan error, 1)
	go func() {
		_, err := a.Call(ctx, "b", "wait", nil)
		result <- err
	}()
	<-started
	cancel(why)
	var lost *UnreachableError
	if err := <-result; !errors.Is(err, why) || !errors.As(err, &lost) || !lost.Sent {
		t.Fatalf("caller: %v", err)
	}
	if cause := <-ended; !errors.Is(cause, ErrCancelled) {
		t.Fatalf("handler: %v", cause)
	}

	s, err := a.Stream(within(t), "b", "wait")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(nil); err != nil {
		t.Fatal(err)
	}
	<-started
	s.Cancel()
	if cause := <-ended; !errors.Is(cause, ErrCancelled) {
		t.Fatalf("handler: %v", cause)
	}
	if _, err := s.Receive(); !errors.Is(err, ErrCancelled) {
		t.Fatalf("after Cancel: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	w := newWorld(t)
	b := w.node("b", map[string]Method{
		"echo":    method(Data, echo),
		"control": method(Control, echo),
		"nobody":  {Handle: method(Data, echo).Handle},
		"vms":     {Roles: []certs.Role{certs.RoleVM}, Handle: method(Data, echo).Handle},
	})
	known := map[string]Method{"control": {Class: Control}}
	a := w.node("a", known)
	vm := w.start(certs.RoleVM, "vm1", known)
	link := w.start(certs.RoleLink, "link1", known)

	check := func(from *Mesh, peer, name string, want error) {
		t.Helper()
		_, err := from.Call(within(t), peer, name, []byte("x"))
		var lost *UnreachableError
		if want == nil {
			if err != nil {
				t.Fatalf("%s from %s: %v", name, from.Identity(), err)
			}
		} else if !errors.Is(err, want) || !errors.As(err, &lost) || lost.Sent {
			t.Fatalf("%s from %s: %v", name, from.Identity(), err)
		}
	}
	// The table: role x method.
	check(a, "b", "echo", nil)
	check(a, "b", "nobody", ErrForbidden)
	check(a, "b", "vms", ErrForbidden)
	check(a, "b", "no/such", ErrUnknownMethod)
	check(a, "b", "NOT A NAME", ErrUnknownMethod)
	check(vm, "b", "echo", ErrForbidden)
	check(vm, "b", "nobody", ErrForbidden)
	check(vm, "b", "vms", nil)
	// No method is for links, so that they do not even get a connection.
	check(link, "b", "echo", ErrRejected)
	check(link, "b", "vms", ErrRejected)
	// Nobody but a node is called.
	check(a, "vm1", "echo", ErrRejected)
	check(a, "nobody-here", "echo", ErrUnknownPeer)

	b.Drain()
	check(a, "b", "echo", ErrDraining)
	check(a, "b", "control", nil)
}

func TestWrongPeerAtTheAddress(t *testing.T) {
	w := newWorld(t)
	w.node("b", map[string]Method{"echo": method(Data, echo)})
	a := w.node("a", nil)
	w.addrs["c"] = w.addrs["b"]
	var lost *UnreachableError
	if _, err := a.Call(within(t), "c", "echo", nil); !errors.Is(err, ErrRejected) || !errors.As(err, &lost) || lost.Sent {
		t.Fatalf("%v", err)
	}
}
