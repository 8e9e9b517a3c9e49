package registry

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A leader that was replaced, and cannot know it yet, serves no stale read.
func TestAReplacedLeaderServesNoStaleRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, func(c *Config) { c.Heartbeat = 2 * time.Second })
		m.grow(3)
		old := m.nodes["n1"]
		m.until("voters", func() bool { return m.voters(old) == 3 })
		time.Sleep(5 * time.Second)
		// Nothing reaches it any more, but the hand-over leaves it.
		for _, other := range []NodeID{"n2", "n3"} {
			m.net.set(other, "n1", true)
		}
		handed := make(chan error, 1)
		go func() { handed <- old.TransferLeadership(within60(t)) }()
		m.until("another leads", func() bool { return m.nodes["n2"].Leading() || m.nodes["n3"].Leading() })
		want(t, "the old one believes that it leads", old.Leading(), true)
		next := m.nodes["n2"]
		if !next.Leading() {
			next = m.nodes["n3"]
		}
		if _, err := next.CreateActor(within60(t), CreateActor{Name: "ada", ID: "id"}); err != nil {
			t.Fatal(err)
		}
		want(t, "it still does", old.Leading(), true)
		short, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		if v, err := old.Fresh(short); err == nil {
			t.Fatalf("it answered with %d actors", len(v.Actors()))
		} else if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnknownOutcome) {
			t.Fatalf("%v", err)
		}
		// A lease is not granted by it either, though the others have answered its heartbeats
		// before.
		if err := old.leases.grant(renewal{ID: "n1", Incarnation: 1}); err != nil {
			t.Fatal(err)
		}
		if a := old.perform(short, "n1", call{op: opRenew, body: []byte(`{"id":"n1","life":1,"applied":0,"load":{}}`)}); a.status == statusDone {
			t.Fatalf("it granted a lease: %s", a.body)
		}
		for _, other := range []NodeID{"n2", "n3"} {
			m.net.set(other, "n1", false)
		}
		v, err := old.Fresh(within60(t))
		if err != nil || len(v.Actors()) != 1 {
			t.Fatalf("%v", err)
		}
		<-handed
		m.stop()
	})
}

// A new leader serves reads only after it has applied what the old one had committed.
func TestANewLeaderServesNoStaleRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, nil)
		m.grow(3)
		m.until("voters", func() bool { return m.voters(m.nodes["n1"]) == 3 })
		m.net.mu.Lock()
		m.net.delay = jitter(60 * time.Millisecond)
		m.net.mu.Unlock()
		for round := range 25 {
			var leader NodeID
			m.until("a leader", func() bool { leader = m.leader(); return leader != "" })
			out, err := m.nodes[leader].CreateActor(within60(t), CreateActor{Name: fmt.Sprint("a", round), ID: "id"})
			if err != nil || out.Result != ActorCreated {
				t.Fatalf("%+v, %v", out, err)
			}
			// The others have it on disk and may not know yet that it is committed.
			m.net.isolate(leader, true)
			for id, r := range m.nodes {
				if id == leader {
					continue
				}
				v, err := r.Fresh(within60(t))
				for errors.Is(err, ErrUnavailable) {
					v, err = r.Fresh(within60(t))
				}
				if err != nil {
					t.Fatal(err)
				}
				if _, there := v.Actor(fmt.Sprint("a", round)); !there {
					t.Fatalf("round %d: %s does not know what was committed before", round, id)
				}
			}
			m.net.isolate(leader, false)
		}
		m.net.mu.Lock()
		m.net.delay = nil
		m.net.mu.Unlock()
		m.stop()
	})
}

// Concurrent reads all succeed, and share the questions to the other voters.
func TestConcurrentReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const readers = 200
		var probes atomic.Int64 // that n1 has sent
		m := newMesh(t, func(c *Config) {
			if c.NodeID != "n1" {
				return
			}
			countProbes(c, &probes)
		})
		m.grow(3)
		r := m.nodes["n1"]
		m.until("voters", func() bool { return m.voters(r) == 3 })
		m.peopled()
		m.until("n1 leads", r.Leading)
		// No answer arrives before all readers have asked.
		m.net.mu.Lock()
		m.net.delay = func() time.Duration { return time.Millisecond }
		m.net.mu.Unlock()
		before := probes.Load()
		errs := make(chan error, readers)
		for range readers {
			go func() {
				v, err := r.Fresh(within60(t))
				if err == nil && len(v.Actors()) != 1 {
					err = fmt.Errorf("got %d actors, want 1", len(v.Actors()))
				}
				errs <- err
			}()
		}
		for range readers {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		// Two confirmations of two voters each, and what the leader's own checks add.
		if sent := probes.Load() - before; sent < 2 || sent > 12 {
			t.Errorf("%d reads have sent %d probes, want 2 to 12", readers, sent)
		}
		m.stop()
		if _, err := r.Fresh(within60(t)); !errors.Is(err, ErrUnavailable) {
			t.Errorf("closed: got %v, want %v", err, ErrUnavailable)
		}
	})
}
