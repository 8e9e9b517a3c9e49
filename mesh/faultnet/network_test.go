package faultnet

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func listen(t *testing.T, n *Network, addr string) *Endpoint {
	t.Helper()
	e, err := n.Listen(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return e
}

func send(t *testing.T, from, to *Endpoint, count int) {
	t.Helper()
	for i := range count {
		if _, err := from.WriteTo(binary.BigEndian.AppendUint32(nil, uint32(i)), to.LocalAddr()); err != nil {
			t.Fatal(err)
		}
	}
}

// received reads all that arrives within an hour: give it a bubble's clock.
func received(t *testing.T, e *Endpoint) (got []int) {
	t.Helper()
	if err := e.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	for {
		b := make([]byte, 100)
		n, _, err := e.ReadFrom(b)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return got
		}
		if err != nil || n != 4 {
			t.Fatal(n, err)
		}
		got = append(got, int(binary.BigEndian.Uint32(b)))
	}
}

func TestPerfect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1, Link{Delay: 20 * time.Millisecond})
		a, b := listen(t, n, "10.0.0.1:1000"), listen(t, n, "10.0.0.2:1000")
		start := time.Now()
		send(t, a, b, 1000)
		_, from, err := b.ReadFrom(make([]byte, 10))
		if err != nil || from.String() != "10.0.0.1:1000" || time.Since(start) != 20*time.Millisecond {
			t.Fatal(from, err, time.Since(start))
		}
		if got := received(t, b); len(got) != 999 || !slices.IsSorted(got) {
			t.Fatalf("%d packets: %v", len(got), got)
		}
	})
}

func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := func(seed uint64, link Link) []int {
			n := New(seed, link)
			a, b := listen(t, n, "10.0.0.1:1000"), listen(t, n, "10.0.0.2:1000")
			send(t, a, b, 2000)
			return received(t, b)
		}
		lossy := Link{Drop: 0.2, Duplicate: 0.1, Jitter: 50 * time.Millisecond}
		got := run(7, lossy)
		if slices.IsSorted(got) {
			t.Error("nothing was reordered")
		}
		slices.Sort(got)
		once := len(slices.Compact(slices.Clone(got)))
		if once < 1500 || once > 1700 || len(got)-once < 100 || len(got)-once > 220 {
			t.Errorf("%d of 2000 arrived, %d of them twice", once, len(got)-once)
		}
		if again := run(7, lossy); len(again) != len(got) {
			t.Errorf("the same seed gives %d, then %d packets", len(got), len(again))
		}
		if got := run(1, Link{Drop: 1}); len(got) != 0 {
			t.Errorf("%d packets over a dead link", len(got))
		}
	})
}

func TestCuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1, Link{})
		a, b, c := listen(t, n, "10.0.0.1:1"), listen(t, n, "10.0.0.2:1"), listen(t, n, "10.0.0.3:1")
		open := func(from, to *Endpoint) bool {
			send(t, from, to, 1)
			return len(received(t, to)) == 1
		}
		check := func(what string, ab, ba, ac, bc bool) {
			t.Helper()
			if got := [4]bool{open(a, b), open(b, a), open(a, c), open(b, c)}; got != [4]bool{ab, ba, ac, bc} {
				t.Fatalf("%s: %v", what, got)
			}
		}
		check("at first", true, true, true, true)
		n.CutOneWay("10.0.0.1", "10.0.0.2")
		check("one way", false, true, true, true)
		n.Cut("10.0.0.1", "10.0.0.2")
		check("both ways", false, false, true, true)
		n.Heal("10.0.0.1", "10.0.0.2")
		check("healed", true, true, true, true)
		n.Isolate("10.0.0.1")
		check("isolated", false, false, false, true)
		if !open(a, a) {
			t.Fatal("an isolated host cannot reach itself")
		}
		n.Rejoin("10.0.0.1")
		n.Split([]string{"10.0.0.1", "10.0.0.2"}, []string{"10.0.0.3"})
		check("split", true, true, false, false)
		n.HealAll()
		n.SetLink("10.0.0.1", "10.0.0.2", Link{Drop: 1})
		check("one bad link", false, true, true, true)
	})
}

func TestEndpoint(t *testing.T) {
	n := New(1, Link{})
	a := listen(t, n, "10.0.0.1:1")
	if _, err := n.Listen("10.0.0.1:1"); err == nil {
		t.Fatal("an address twice")
	}
	if _, err := n.Listen("nowhere"); err == nil {
		t.Fatal("no address")
	}
	ended := make(chan error)
	go func() {
		_, _, err := a.ReadFrom(make([]byte, 1))
		ended <- err
	}()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Fatalf("read: %v", err)
	}
	if _, err := a.WriteTo([]byte{1}, a.LocalAddr()); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("write: %v", err)
	}
	b := listen(t, n, "10.0.0.1:1")
	for range queueSize + 10 {
		if _, err := b.WriteTo([]byte{1}, b.LocalAddr()); err != nil {
			t.Fatal(err)
		}
	}
	if s := n.Stats(); s.Overflowed != 10 || s.Delivered != queueSize {
		t.Fatalf("%+v", s)
	}
}
