package mesh

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/locusrun/locus/certs"
)

// machine opens a mesh that only dials.
func (w *world) machine(id string) *Mesh {
	return w.start(certs.RoleLink, id, nil, func(c *Config) { c.DialOnly, c.Locate = true, nil })
}

func forMachines() map[string]Method {
	return map[string]Method{
		"who": {Roles: []certs.Role{certs.RoleLink}, Class: Data, Handle: func(_ context.Context, s *Stream) error {
			return s.Send([]byte(s.Peer().ID))
		}},
		"hold": {Roles: []certs.Role{certs.RoleLink}, Class: Data, Handle: func(ctx context.Context, s *Stream) error {
			if err := s.Send([]byte("held")); err != nil {
				return err
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}},
		"for/nodes": {Roles: []certs.Role{certs.RoleNode}, Class: Data, Handle: func(context.Context, *Stream) error { return nil }},
	}
}

func TestAMachineDialsAndIsNotDialled(t *testing.T) {
	w := newWorld(t)
	n := w.node("n", forMachines())
	m := w.machine("m")
	s, err := m.StreamAt(t.Context(), n.Addr().String(), "who")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Receive(); err != nil || string(got) != "m" || s.Peer().ID != "n" {
		t.Fatalf("got %q, %v from %s", got, err, s.Peer())
	}
	if _, err := s.Receive(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if s, err = m.StreamAt(t.Context(), n.Addr().String(), "for/nodes"); err == nil {
		_, err = s.Receive()
	}
	if !errors.Is(err, ErrForbidden) {
		t.Fatalf("a method for nodes: %v", err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := n.StreamAt(ctx, m.Addr().String(), "who"); err == nil {
		t.Fatal("a machine was dialled")
	}
}

// A machine that keeps reconnecting has only a few connections.
func TestAMachineHasFewConnections(t *testing.T) {
	w := newWorld(t)
	n := w.node("n", forMachines())
	credentials := w.credentials(certs.RoleLink, "m")
	var streams []*Stream
	for range 3 * maxPerMachine {
		conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		m, err := Open(Config{Conn: conn, Credentials: credentials, DialOnly: true, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		})
		s, err := m.StreamAt(t.Context(), n.Addr().String(), "hold")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Receive(); err != nil {
			t.Fatal(err)
		}
		streams = append(streams, s)
	}
	for _, s := range streams[:2*maxPerMachine] {
		if _, err := s.Receive(); !errors.Is(err, ErrBusy) {
			t.Fatalf("an old connection ended with %v", err)
		}
	}
	for deadline := time.Now().Add(time.Minute); len(n.Peers()) > maxPerMachine; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are left", len(n.Peers()))
		}
	}
	last := streams[len(streams)-1]
	last.Cancel()
}

// A machine has a bounded number of streams on a connection.
func TestAMachineHasFewStreams(t *testing.T) {
	w := newWorld(t)
	n := w.node("n", forMachines())
	m := w.machine("m")
	var held []*Stream
	for range maxMachineStreams {
		s, err := m.StreamAt(t.Context(), n.Addr().String(), "hold")
		if err == nil {
			_, err = s.Receive()
		}
		if err != nil {
			t.Fatalf("stream %d: %v", len(held), err)
		}
		defer s.Cancel()
		held = append(held, s)
	}
	asks := func() error {
		s, err := m.StreamAt(t.Context(), n.Addr().String(), "who")
		if err != nil {
			return err
		}
		defer s.Cancel()
		_, err = s.Receive()
		return err
	}
	if err := asks(); !errors.Is(err, ErrBusy) {
		t.Fatalf("one more stream: %v", err)
	}
	held[0].Cancel()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		err := asks()
		if err == nil {
			break
		}
		if !errors.Is(err, ErrBusy) || time.Now().After(deadline) {
			t.Fatalf("after one has ended: %v", err)
		}
	}
}
