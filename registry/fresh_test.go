package registry

import (
	"context"
	"errors"
	"fmt"
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
		go func() { handed <- old.TransferLead(within60(t)) }()
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
		// A lease is not granted by it either.
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

// Concurrent reads, which share one confirmation of the quorum, all succeed.
func TestConcurrentReads(t *testing.T) {
	r := open(t, Config{Dir: t.TempDir()})
	peopled(t, r)
	errs := make(chan error, 200)
	for range cap(errs) {
		go func() {
			v, err := r.Fresh(within60(t))
			if err == nil && len(v.Actors()) != 1 {
				err = fmt.Errorf("%d actors", len(v.Actors()))
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Fresh(within60(t)); !errors.Is(err, ErrUnavailable) {
		t.Errorf("closed: %v", err)
	}
}
