package registry

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// The leader sends heartbeats to all members at the same moments, so that it wakes once for
// all of them.
func TestHeartbeatsAreSentTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, func(c *Config) { c.Heartbeat = time.Second })
		m.grow(3)
		m.until("voters", func() bool { return m.voters(m.nodes["n1"]) == 3 })
		time.Sleep(5 * time.Second)
		const moment, watched = 10 * time.Millisecond, 30 * time.Second
		sent := &m.nodes["n1"].transport.(*transport).contacts
		heartbeats, last := 0, sent.lastHeartbeat("n2")
		for range watched / moment {
			time.Sleep(moment)
			synctest.Wait()
			want(t, "time of the last heartbeat to n3", sent.lastHeartbeat("n3"), sent.lastHeartbeat("n2"))
			if now := sent.lastHeartbeat("n2"); now != last {
				heartbeats++
				last = now
			}
		}
		want(t, "heartbeats to each", heartbeats, int(watched/(300*time.Millisecond)))
		m.stop()
	})
}

// However far a member is, and whatever raft's pause after an answer, the member hears from
// the leader in time.
func TestHeartbeatPace(t *testing.T) {
	began := time.Now()
	p := heartbeatPace{timeout: time.Second, began: began}
	if wait := p.wait(began, time.Time{}); wait != 0 {
		t.Errorf("the first heartbeat waits for %s", wait)
	}
	for rtt := time.Duration(0); rtt <= time.Second; rtt += 7 * time.Millisecond {
		for pause := 100 * time.Millisecond; pause <= 200*time.Millisecond; pause += 9 * time.Millisecond {
			last := began.Add(rtt)
			for range 50 {
				asked := last.Add(rtt + pause)
				next := asked.Add(p.wait(asked, last))
				if gap, limit := next.Sub(last), max(400*time.Millisecond, rtt+pause); gap > limit {
					t.Fatalf("round trip %s, pause %s: heartbeats are %s apart, want at most %s", rtt, pause, gap, limit)
				}
				last = next
			}
		}
	}
}

// Leases are renewed without further questions to the voters: the answers to heartbeats
// confirm the leader.
func TestHeartbeatsConfirmRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var probes atomic.Int64
		m := newMesh(t, func(c *Config) {
			c.Heartbeat = time.Second
			countProbes(c, &probes)
		})
		m.grow(3)
		m.until("voters", func() bool { return m.voters(m.nodes["n1"]) == 3 })
		leases := map[NodeID]*Lease{}
		for id, r := range m.nodes {
			n, err := r.RegisterNode(within60(t), RegisterNode{ID: id})
			if err != nil {
				t.Fatal(err)
			}
			leases[id] = r.KeepLease(t.Context(), n.Incarnation, LeaseEvents{})
		}
		time.Sleep(10 * time.Second)
		before := probes.Load()
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			for id, l := range leases {
				if !l.Valid() {
					t.Fatalf("the lease of %s is %s", id, l.State())
				}
			}
		}
		want(t, "probes", probes.Load()-before, 0)
		m.stop()
	})
}

// Only answers to messages that were sent after the question, in the same term, count.
func TestContacts(t *testing.T) {
	c := newContacts()
	voters := []raft.ServerID{"a", "b"}
	early := c.send()
	asked := c.now()
	later, other := c.send(), c.send()
	steps := []struct {
		what        string
		from        raft.ServerID
		term, count uint64
		answered    int
	}{
		{"an earlier message", "a", 5, early, 0},
		{"a later one", "a", 5, later, 1},
		{"the earlier one once more", "a", 5, early, 1},
		{"one that does not vote", "x", 5, later, 1},
		{"another term", "b", 4, other, 1},
		{"the other voter", "b", 5, other, 2},
		{"the next term", "b", 6, other, 1},
	}
	for _, s := range steps {
		_, changed := c.since(asked, 5, voters)
		c.answered(s.from, s.term, s.count)
		now, _ := c.since(asked, 5, voters)
		want(t, s.what, now, s.answered)
		if s.from == "b" {
			select {
			case <-changed:
			default:
				t.Errorf("%s: nobody was woken", s.what)
			}
		}
	}
}
