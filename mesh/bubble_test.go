package mesh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/locusrun/locus/mesh/faultnet"
)

// simulated returns a world on an in-memory network, inside a synctest bubble. Node "n3"
// has the host 10.0.0.3.
func simulated(t *testing.T, link faultnet.Link) (*world, *faultnet.Network) {
	t.Helper()
	// The last probe of gossip ends some time after its Close, and the bubble's clock stops
	// when the test returns.
	t.Cleanup(func() { time.Sleep(time.Minute) })
	network := faultnet.New(1, link)
	w := newWorld(t)
	w.socket = func(id string) net.PacketConn {
		e, err := network.Listen(host(id) + ":7000")
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	return w, network
}

func host(id string) string { return "10.0.0." + id[1:] }

func TestDeadPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, network := simulated(t, faultnet.Link{Delay: time.Millisecond})
		wait, started, ended := waits(Data)
		w.node("n2", map[string]Method{"wait": wait, "echo": method(Data, echo)})
		a := w.node("n1", nil)
		result := make(chan error, 1)
		go func() {
			_, err := a.Call(within(t), "n2", "wait", nil)
			result <- err
		}()
		<-started
		network.Cut(host("n1"), host("n2"))
		start := time.Now()
		var lost *UnreachableError
		var idle *quic.IdleTimeoutError
		if err := <-result; !errors.As(err, &lost) || !lost.Sent || !errors.As(err, &idle) {
			t.Fatalf("running call: %v", err)
		}
		if took := time.Since(start); took > DefaultMaxIdle+DefaultKeepAlive {
			t.Fatalf("noticed after %v", took)
		}
		if cause := <-ended; !errors.As(cause, &idle) {
			t.Fatalf("handler: %v", cause)
		}

		// The first call waits for the handshake timeout. Later ones fail at once, until
		// the backoff is over.
		start = time.Now()
		if _, err := a.Call(within(t), "n2", "echo", nil); !errors.As(err, &lost) || lost.Sent {
			t.Fatalf("new call: %v", err)
		}
		if took := time.Since(start); took > DefaultHandshake {
			t.Fatalf("a dial took %v", took)
		}
		quick, slow := 0, 0
		for range 200 {
			start = time.Now()
			if _, err := a.Call(within(t), "n2", "echo", nil); err == nil || !errors.As(err, &lost) || lost.Sent {
				t.Fatalf("call: %v", err)
			}
			if time.Since(start) < time.Millisecond {
				quick++
			} else {
				slow++
			}
			time.Sleep(100 * time.Millisecond)
		}
		if quick < 100 || slow == 0 {
			t.Fatalf("%d calls failed at once, %d after a dial", quick, slow)
		}

		network.HealAll()
		start = time.Now()
		for {
			if _, err := a.Call(within(t), "n2", "echo", nil); err == nil {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		if took := time.Since(start); took > maxBackoff+time.Second {
			t.Fatalf("back after %v", took)
		}
	})
}

// A caller's deadline also applies to the dial, which goes on for other callers.
func TestCallerDeadlineDuringADial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := simulated(t, faultnet.Link{Delay: 400 * time.Millisecond})
		w.node("n2", map[string]Method{"echo": method(Data, echo)})
		a := w.node("n1", nil)
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		var lost *UnreachableError
		if _, err := a.Call(ctx, "n2", "echo", nil); !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &lost) || lost.Sent {
			t.Fatalf("%v", err)
		}
		if _, err := a.Call(within(t), "n2", "echo", nil); err != nil {
			t.Fatal(err)
		}
		if n := len(a.Peers()); n != 1 {
			t.Fatalf("%d connections", n)
		}
	})
}

func TestLossyNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, network := simulated(t, faultnet.Link{Delay: 5 * time.Millisecond, Jitter: 5 * time.Millisecond, Drop: 0.1, Duplicate: 0.05})
		w.node("n2", map[string]Method{"echo": method(Data, echo)})
		a := w.node("n1", nil)
		for i := range 50 {
			want := fmt.Sprint(i)
			got, err := a.Call(within(t), "n2", "echo", []byte(want))
			if err != nil || string(got) != want {
				t.Fatalf("call %d: %q, %v", i, got, err)
			}
		}
		if s := network.Stats(); s.Dropped == 0 {
			t.Fatalf("%+v", s)
		}
	})
}

// The answer of a handler that ran before Close arrives, even with packet loss.
func TestCloseLosesNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := simulated(t, faultnet.Link{Delay: 10 * time.Millisecond})
		b := w.node("n2", map[string]Method{"big": method(Data, func(_ context.Context, r []byte) ([]byte, error) {
			time.Sleep(time.Second)
			return make([]byte, MaxFrame), nil
		})})
		a := w.node("n1", nil)
		result := make(chan error, 1)
		go func() {
			_, err := a.Call(within(t), "n2", "big", nil)
			result <- err
		}()
		time.Sleep(500 * time.Millisecond)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-result; err != nil {
			t.Fatal(err)
		}
	})
}

func TestIdleConnectionsAreRetired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := simulated(t, faultnet.Link{Delay: time.Millisecond})
		b := w.node("n2", map[string]Method{"echo": method(Data, echo), "c": method(Control, echo)})
		a := w.node("n1", map[string]Method{"c": {Class: Control}})
		for range 3 {
			for _, name := range []string{"echo", "c"} {
				if _, err := a.Call(within(t), "n2", name, nil); err != nil {
					t.Fatal(err)
				}
			}
			if len(a.Peers()) != 2 || len(b.Peers()) != 2 {
				t.Fatalf("%d and %d connections", len(a.Peers()), len(b.Peers()))
			}
			time.Sleep(retireAfter + 3*time.Second)
			if len(a.Peers()) != 0 || len(b.Peers()) != 0 {
				t.Fatalf("%d and %d connections", len(a.Peers()), len(b.Peers()))
			}
		}
	})
}

// Peers close their connections when they learn of a Close, so that it need not wait.
func TestCloseDoesNotLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := simulated(t, faultnet.Link{Delay: time.Millisecond})
		b := w.node("n2", map[string]Method{"echo": method(Data, echo)})
		for _, id := range []string{"n1", "n3", "n4"} {
			if _, err := w.node(id, nil).Call(within(t), "n2", "echo", nil); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > maxLinger/4 {
			t.Fatalf("it took %v", took)
		}
	})
}

// A long call without traffic keeps its connection.
func TestLongCallWithoutTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := simulated(t, faultnet.Link{Delay: time.Millisecond})
		w.node("n2", map[string]Method{"slow": method(Data, func(ctx context.Context, r []byte) ([]byte, error) {
			select {
			case <-time.After(10 * time.Minute):
			case <-ctx.Done():
			}
			return r, context.Cause(ctx)
		})})
		a := w.node("n1", nil)
		if _, err := a.Call(context.Background(), "n2", "slow", nil); err != nil {
			t.Fatal(err)
		}
	})
}

// With the same reset key, a restarted peer says at once that it does not know the old
// connection.
func TestRestartedPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, network := simulated(t, faultnet.Link{Delay: time.Millisecond})
		key := &quic.StatelessResetKey{1, 2, 3}
		serve := func() *Mesh {
			wait, _, _ := waits(Data)
			return w.node("n2", map[string]Method{"wait": wait, "echo": method(Data, echo)}, func(c *Config) { c.ResetKey = key })
		}
		b := serve()
		a := w.node("n1", nil)
		s, err := a.Stream(within(t), "n2", "wait")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		network.Isolate(host("n2")) // so that nothing of its end gets out
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		network.Rejoin(host("n2"))
		serve()
		start := time.Now()
		var reset *quic.StatelessResetError
		if _, err := s.Receive(); !errors.As(err, &reset) {
			t.Fatalf("the old call: %v", err)
		}
		if took := time.Since(start); took > DefaultKeepAlive+time.Second {
			t.Fatalf("noticed after %v", took)
		}
		for {
			if _, err := a.Call(within(t), "n2", "echo", nil); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(start); took > DefaultKeepAlive+2*time.Second {
			t.Fatalf("back after %v", took)
		}
	})
}

// A peer with a new address is dialled there at once, although the old connection still
// looks alive.
func TestMovedPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, network := simulated(t, faultnet.Link{Delay: time.Millisecond})
		serve := map[string]Method{"echo": method(Data, echo)}
		w.node("n2", serve)
		a := w.node("n1", nil)
		if _, err := a.Call(within(t), "n2", "echo", nil); err != nil {
			t.Fatal(err)
		}
		network.Isolate(host("n2"))
		w.socket = func(string) net.PacketConn {
			e, err := network.Listen("10.0.0.22:7000")
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		w.node("n2", serve)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := a.Call(ctx, "n2", "echo", nil); err != nil {
			t.Fatal(err)
		}
	})
}

// Links to peers that nobody calls any more are removed.
func TestLinksAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := simulated(t, faultnet.Link{})
		w.node("n2", map[string]Method{"echo": method(Data, echo)})
		a := w.node("n1", nil)
		for i := range 20 {
			w.addrs[fmt.Sprint("gone", i)] = "10.0.0.99:1"
			if _, err := a.Call(within(t), fmt.Sprint("gone", i), "echo", nil); err == nil {
				t.Fatal("nobody has answered")
			}
		}
		if _, err := a.Call(within(t), "n2", "echo", nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * retireAfter)
		a.mu.Lock()
		defer a.mu.Unlock()
		if len(a.links) != 0 {
			t.Fatalf("%d links", len(a.links))
		}
	})
}

func TestAfterSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := simulated(t, faultnet.Link{Delay: time.Millisecond})
		w.node("n2", map[string]Method{"echo": method(Data, echo)})
		a := w.node("n1", nil)
		if _, err := a.Call(within(t), "n2", "echo", nil); err != nil {
			t.Fatal(err)
		}
		old := a.connections()[0]
		a.slept(time.Minute)
		if _, err := a.Call(within(t), "n2", "echo", nil); err != nil {
			t.Fatal(err)
		}
		if now := a.connections(); len(now) != 1 || now[0] == old {
			t.Fatalf("%d connections", len(now))
		}
	})
}

func TestWatchClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		var asleep atomic.Int64
		jumps := make(chan time.Duration, 10)
		go watchClock(ctx, func() time.Duration { return time.Duration(asleep.Load()) }, func(d time.Duration) { jumps <- d })
		for _, step := range []time.Duration{0, 4 * time.Second, 5 * time.Second, 6 * time.Second, 0, time.Hour} {
			synctest.Wait()
			asleep.Add(int64(step))
			time.Sleep(watchEvery)
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(jumps)
		var got []time.Duration
		for d := range jumps {
			got = append(got, d)
		}
		if len(got) != 2 || got[0] != 6*time.Second || got[1] != time.Hour {
			t.Fatalf("%v", got)
		}
	})
}
