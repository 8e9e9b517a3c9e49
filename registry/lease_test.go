package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// tenant is one incarnation of a node in a test, and what its lease reported.
type tenant struct {
	r      *Registry
	lease  *Lease
	life   Incarnation
	frozen atomic.Int32
	thawed atomic.Int32
	fenced atomic.Int32
	stop   func()
}

// settle registers a node and keeps its lease.
func (m *mesh) settle(id NodeID) *tenant {
	m.t.Helper()
	r := m.nodes[id]
	node, err := r.RegisterNode(within60(m.t), RegisterNode{ID: id})
	if err != nil {
		m.t.Fatal(err)
	}
	n := &tenant{r: r, life: node.Incarnation}
	n.lease = m.keep(r, n)
	if err := n.lease.Await(within60(m.t)); err != nil {
		m.t.Fatal(err)
	}
	return n
}

func (m *mesh) settleAll() map[NodeID]*tenant {
	m.t.Helper()
	all := map[NodeID]*tenant{}
	for id := range m.nodes {
		all[id] = m.settle(id)
	}
	return all
}

func (m *mesh) keep(r *Registry, n *tenant) *Lease {
	ctx, cancel := contextOf(m)
	n.stop = cancel
	return r.KeepLease(ctx, n.life, LeaseEvents{
		Freeze: func() { n.frozen.Add(1) },
		Thaw:   func() { n.thawed.Add(1) },
		Fenced: func(life Incarnation) {
			if life != n.life {
				m.t.Errorf("life %d was fenced, not %d", life, n.life)
			}
			n.fenced.Add(1)
		},
		Load: func() Load { return Load{Running: int(n.life), Sessions: 7} },
	})
}

func (m *mesh) state(seenBy, of NodeID) NodeState {
	n, _ := m.nodes[seenBy].View().Node(of)
	return n.State
}

func TestLeaseIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, nil)
		m.grow(3)
		all := m.settleAll()
		for range 200 {
			time.Sleep(100 * time.Millisecond)
			for id, n := range all {
				if !n.lease.Valid() || n.frozen.Load() != 0 {
					t.Fatalf("%s lost its lease in peace: %s", id, n.lease.State())
				}
				want(t, "state", m.state("n2", id), NodeUp)
			}
		}
		for id, r := range m.nodes {
			loads := r.Loads()
			want(t, "loads known to "+string(id), len(loads), 3)
			want(t, "sessions", loads["n3"].Sessions, 7)
		}
		all["n3"].stop()
		<-all["n3"].lease.Done()
		want(t, "a lease that is not kept is not valid", all["n3"].lease.Valid(), false)
		m.stop()
	})
}

// A renewal that is never answered, such as one that a failing network has swallowed, does
// not delay the next. Here two in a row would have cost the lease.
func TestUnansweredRenewalsDoNotDelayTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var swallow atomic.Int32
		m := newMesh(t, func(c *Config) {
			if c.NodeID != "n3" {
				return
			}
			forward := c.Forward
			c.Forward = func(ctx context.Context, to NodeID, request []byte) ([]byte, bool, error) {
				if swallow.Add(-1) >= 0 {
					<-ctx.Done()
					return nil, true, context.Cause(ctx)
				}
				return forward(ctx, to, request)
			}
		})
		m.grow(3)
		n := m.settle("n3")
		for range 10 {
			swallow.Store(2)
			for range 60 {
				time.Sleep(100 * time.Millisecond)
				if !n.lease.Valid() || n.frozen.Load() != 0 {
					t.Fatalf("the lease is %s", n.lease.State())
				}
			}
		}
		n.stop()
		m.stop()
	})
}

// A node that is cut off and comes back in time loses nothing; one that comes back
// too late is fenced.
func TestCutOffNode(t *testing.T) {
	for name, c := range map[string]struct {
		cut  time.Duration
		lost bool
	}{"a moment": {2 * time.Second, false}, "until unreachable": {9 * time.Second, false}, "too long": {20 * time.Second, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMesh(t, nil)
				m.grow(3)
				m.until("voters", func() bool { return m.voters(m.nodes["n1"]) == 3 })
				all := m.settleAll()
				if _, err := m.nodes["n1"].CreateActor(within60(t), CreateActor{Name: "ada", ID: "id"}); err != nil {
					t.Fatal(err)
				}
				n := all["n3"]
				out, err := n.r.ClaimSession(within60(t), ClaimSession{Key: key("ada", 1), Owner: "n3", Incarnation: n.life})
				if err != nil || out.Result != Claimed {
					t.Fatalf("%+v, %v", out, err)
				}
				m.net.isolate("n3", true)
				began := time.Now()
				for time.Since(began) < c.cut {
					time.Sleep(50 * time.Millisecond)
					if since := time.Since(began); n.lease.Valid() && since > 6*time.Second {
						t.Fatalf("the lease is valid %s after the cut", since)
					}
				}
				if c.cut > 6*time.Second {
					want(t, "frozen", n.frozen.Load(), 1)
				}
				m.net.isolate("n3", false)
				if c.lost {
					<-n.lease.Done()
					want(t, "fenced", n.fenced.Load(), 1)
					want(t, "thawed", n.thawed.Load(), 0)
					if !errors.Is(n.lease.Err(), ErrFenced) {
						t.Fatalf("%v", n.lease.Err())
					}
				} else {
					m.until("valid again", n.lease.Valid)
					want(t, "thawed as often as frozen", n.thawed.Load(), n.frozen.Load())
					want(t, "fenced", n.fenced.Load(), 0)
				}
				s, err := m.nodes["n2"].Fresh(within60(t))
				if err != nil {
					t.Fatal(err)
				}
				session, _ := s.Session(key("ada", 1))
				want(t, "lost", session.State == SessionLost, c.lost)
				if !c.lost {
					m.until("live", func() bool {
						s, _ := m.nodes["n2"].View().Session(key("ada", 1))
						return s.State == SessionLive
					})
				}
				for _, n := range all {
					n.stop()
				}
				m.stop()
			})
		})
	}
}

// A node that does not know the leader, because nothing of raft reaches it, asks others
// for its lease.
func TestLeaseWithoutAKnownLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m *mesh
		m = newMesh(t, func(c *Config) {
			if c.NodeID == "n3" { // what it asks passes every cut
				c.Forward = func(ctx context.Context, to NodeID, request []byte) ([]byte, bool, error) {
					reply, err := m.nodes[to].Serve(ctx, "n3", request)
					return reply, true, err
				}
			}
		})
		m.grow(3)
		m.until("voters", func() bool { return m.voters(m.nodes["n1"]) == 3 })
		n := m.settle("n3")
		m.net.isolate("n3", true)
		m.until("it has lost the leader", func() bool { return n.r.otherLeader() == "" })
		time.Sleep(5 * n.r.LeaseConfig().TTL)
		if !n.lease.Valid() || n.frozen.Load() != 0 {
			t.Errorf("its lease is %s, and it was frozen %d times", n.lease.State(), n.frozen.Load())
		}
		n.stop()
		m.stop()
	})
}

// A dead node is unreachable after the lease, and lost after the grace, not before.
func TestDeadNodeIsDeclared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, nil)
		m.grow(3)
		m.until("voters", func() bool { return m.voters(m.nodes["n1"]) == 3 })
		all := m.settleAll()
		all["n3"].stop()
		m.down("n3")
		began := time.Now()
		m.until("unreachable", func() bool { return m.state("n1", "n3") == NodeUnreachable })
		if took := time.Since(began); took < 4500*time.Millisecond || took > 9*time.Second {
			t.Errorf("unreachable after %s", took)
		}
		m.until("expired", func() bool { return m.state("n1", "n3") == NodeExpired })
		if took := time.Since(began); took < 9*time.Second || took > 13*time.Second {
			t.Errorf("expired after %s", took)
		}
		want(t, "the others", m.state("n1", "n2"), NodeUp)
		for _, n := range all {
			n.stop()
		}
		m.stop()
	})
}

// A new leader gives every node a whole lease, whatever the old one saw. The time without a
// leader counts towards the grace.
func TestANewLeaderRestartsLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, nil)
		m.grow(5)
		m.until("voters", func() bool { return m.voters(m.nodes["n1"]) == 5 })
		all := m.settleAll()
		all["n5"].stop()
		m.down("n5")
		time.Sleep(5 * time.Second)
		all["n1"].stop()
		m.down("n1")
		died := time.Now()
		m.until("a new leader", func() bool { return m.leader() != "" })
		leader, elected := m.leader(), time.Now()
		l := m.nodes[leader].LeaseConfig()
		for _, id := range []NodeID{"n1", "n5"} {
			m.until("expired", func() bool { return m.state(leader, id) == NodeExpired })
		}
		// The leader was heard last up to two tenths of a heartbeat before it died, and
		// what is awaited here is looked at now and then.
		const blur = 300 * time.Millisecond
		if took := time.Since(elected); took < l.silenceLimit()-blur {
			t.Errorf("expired %s after the election", took)
		}
		if took := time.Since(died); took < l.silenceLimit()+l.Grace-blur || took > l.silenceLimit()+l.Grace+blur {
			t.Errorf("expired %s after the leader died, elected after %s", took, elected.Sub(died))
		}
		for id, n := range all {
			if m.nodes[id] != nil {
				want(t, "frozen on "+string(id), n.frozen.Load(), 0)
			}
			n.stop()
		}
		m.stop()
	})
}

func TestHalfOfTheNodesVanish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, func(c *Config) { c.MaxVoters, c.Lease.HoldFor = 1, 40*time.Second })
		m.grow(4)
		all := m.settleAll()
		for _, id := range []NodeID{"n3", "n4"} {
			m.net.isolate(id, true)
		}
		m.until("unreachable", func() bool { return m.state("n1", "n4") == NodeUnreachable && m.state("n1", "n3") == NodeUnreachable })
		time.Sleep(30 * time.Second)
		want(t, "held", m.state("n1", "n4"), NodeUnreachable)
		status := m.nodes["n1"].Leases()
		if !slices.Equal(status.Missing, []NodeID{"n3", "n4"}) || status.HeldSince.IsZero() {
			t.Fatalf("%+v", status)
		}
		// Fewer are missing: the one that still is expires.
		m.net.isolate("n3", false)
		m.until("back", func() bool { return m.state("n1", "n3") == NodeUp })
		want(t, "nothing was lost", all["n3"].fenced.Load(), 0)
		m.until("declared", func() bool { return m.state("n1", "n4") == NodeExpired })
		// When nobody comes back, the hold ends.
		m.net.isolate("n3", true)
		m.net.isolate("n2", true)
		began := time.Now()
		m.until("declared in the end", func() bool { return m.state("n1", "n3") == NodeExpired && m.state("n1", "n2") == NodeExpired })
		if took := time.Since(began); took < 40*time.Second {
			t.Errorf("declared after %s", took)
		}
		for _, n := range all {
			n.stop()
		}
		m.stop()
	})
}

func TestRestartedNodeEndsItsOldLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, nil)
		m.grow(2)
		old := m.settle("n2")
		again := m.settle("n2")
		want(t, "next life", again.life, old.life+1)
		<-old.lease.Done()
		want(t, "old one fenced", old.fenced.Load(), 1)
		want(t, "new one valid", again.lease.Valid(), true)
		again.stop()
		m.stop()
	})
}

func TestOnlyTheCurrentLifeIsGrantedALease(t *testing.T) {
	r := open(t, Config{Dir: t.TempDir(), Lease: LeaseConfig{TTL: 6 * time.Second}})
	first := peopled(t, r)
	second := peopled(t, r)
	ask := func(life Incarnation) renewed {
		t.Helper()
		a := r.perform(within60(t), "n1", call{op: opRenew, body: fmt.Appendf(nil, `{"id":"n1","life":%d,"applied":0,"load":{}}`, life)})
		if a.status != statusDone {
			t.Fatalf("%+v", a)
		}
		got, err := decodeStrict[renewed](a.body)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	want(t, "an earlier life", ask(first).Fenced, true)
	want(t, "the present one", ask(second).TTL, 6*time.Second)
	want(t, "one that is not yet", ask(second+1).Fenced, true)
	if _, err := r.MarkNode(within60(t), MarkNode{ID: "n1", Incarnation: second, State: NodeExpired}); err != nil {
		t.Fatal(err)
	}
	want(t, "one that is over", ask(second).Fenced, true)
}

// A life that registers with a leader who has led for long has its whole time to ask
// for its first lease.
func TestANewLifeHasTimeToAskForItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease, err := LeaseConfig{}.validate()
		if err != nil {
			t.Fatal(err)
		}
		quiet := func(string, ...any) {}
		leader := &leaseTable{}
		leader.restart(0)
		if err := leader.grant(renewal{ID: "n1", Incarnation: 1}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		again := []*Node{{ID: "n1", Incarnation: 2, State: NodeUp}}
		if due, _ := leader.due(again, lease, quiet); len(due) != 0 {
			t.Fatalf("a life that has just begun is declared %+v", due)
		}
		time.Sleep(lease.silenceLimit() + time.Second)
		if due, _ := leader.due(again, lease, quiet); len(due) != 1 || due[0].State != NodeUnreachable {
			t.Fatalf("a life that never asked for a lease: %+v", due)
		}
	})
}
