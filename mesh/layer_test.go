package mesh

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/locusrun/locus/certs"
)

func layer(t testing.TB, m *Mesh) *StreamLayer {
	t.Helper()
	l, err := m.StreamLayer("raft")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestStreamLayer(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("a", nil), w.node("b", nil)
	la, lb := layer(t, a), layer(t, b)
	if _, err := a.StreamLayer("raft"); err == nil {
		t.Fatal("two layers of one kind")
	}
	if la.Addr().String() != "a" {
		t.Fatalf("address %s", la.Addr())
	}

	out, err := la.Dial("b", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	// Accepted though nothing was written.
	in, err := lb.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if in.RemoteAddr().String() != "a" || in.LocalAddr().String() != "b" || out.RemoteAddr().String() != "b" {
		t.Fatalf("%s to %s, %s", in.RemoteAddr(), in.LocalAddr(), out.RemoteAddr())
	}

	if err := in.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if _, err := in.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Fatalf("deadline: %v", err)
	}
	if err := in.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}

	sent := bytes.Repeat([]byte("0123456789"), 100_000)
	go func() {
		if _, err := out.Write(sent); err != nil {
			t.Error(err)
		}
		if err := out.Close(); err != nil {
			t.Error(err)
		}
	}()
	got, err := io.ReadAll(in)
	if err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	// The other side no longer reads, which this one learns by writing.
	for err == nil {
		_, err = in.Write(sent[:1000])
	}
	var lost *UnreachableError
	if !errors.As(err, &lost) {
		t.Fatalf("write to a closed stream: %v", err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("read after Close: %v", err)
	}
}

// A stream closed on both sides must release its credit.
func TestStreamLayerFreesStreams(t *testing.T) {
	w := newWorld(t)
	few := func(c *Config) {
		c.windows = defaultWindows
		c.windows.streams = 4
	}
	a, b := w.node("a", nil, few), w.node("b", nil, few)
	la, lb := layer(t, a), layer(t, b)
	for range 50 {
		out, err := la.Dial("b", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		in, err := lb.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := in.Write([]byte("never read")); err != nil {
			t.Fatal(err)
		}
		_, _ = out.Close(), in.Close()
	}
	for _, p := range append(a.Peers(), b.Peers()...) {
		if p.Streams != 0 {
			t.Fatalf("streams left: %+v", p)
		}
	}
}

func TestStreamLayerRefuses(t *testing.T) {
	w := newWorld(t)
	b := w.node("b", map[string]Method{"vms": {Roles: []certs.Role{certs.RoleVM}, Handle: method(Data, echo).Handle}})
	a, vm := w.node("a", nil), w.start(certs.RoleVM, "vm1", nil)
	la, lvm := layer(t, a), layer(t, vm)

	fails := func(l *StreamLayer, want error) {
		t.Helper()
		c, err := l.Dial("b", time.Minute)
		if err == nil {
			_, err = c.Read(make([]byte, 1))
			_ = c.Close()
		}
		if !errors.Is(err, want) {
			t.Fatalf("got %v, want %v", err, want)
		}
	}
	fails(la, ErrUnknownMethod)
	lb := layer(t, b)
	fails(lvm, ErrForbidden)
	for range acceptQueue {
		c, err := la.Dial("b", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	// Streams are served in no order, so that any of them may be the refused one: ask
	// until the queue is full.
	for {
		c, err := la.Dial("b", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if len(lb.queue) == acceptQueue {
			break
		}
	}
	fails(la, ErrBusy)
	if err := lb.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := lb.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("accept of a closed layer: %v", err)
	}
	fails(la, ErrUnknownMethod)
}
