package registry

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestFarBehindNodeGetsASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, func(c *Config) { c.TrailingLogs = 5 })
		m.grow(2)
		first := m.nodes["n1"]
		m.until("it follows", func() bool { return m.nodes["n2"].View().ClusterID() != "" })
		m.net.isolate("n2", true)
		for i := range 50 {
			if _, err := first.CreateActor(within60(t), CreateActor{Name: fmt.Sprint("a", i), ID: "id"}); err != nil {
				t.Fatal(err)
			}
		}
		if err := first.raft.Snapshot().Error(); err != nil {
			t.Fatal(err)
		}
		oldest, err := first.dir.store.FirstIndex()
		if err != nil || oldest <= m.nodes["n2"].View().Index() {
			t.Fatalf("the log begins at %d, %v: nothing forces a snapshot", oldest, err)
		}
		m.net.isolate("n2", false)
		m.until("it has caught up", func() bool { return len(m.nodes["n2"].View().Actors()) == 50 })
		snapshots, err := m.nodes["n2"].dir.snapshots.List()
		if err != nil || len(snapshots) == 0 {
			t.Fatalf("no snapshot came: %v", err)
		}
		m.nodes["n2"].View() // and it goes on from there
		if _, err := m.nodes["n2"].CreateActor(within60(t), CreateActor{Name: "last", ID: "id"}); err != nil {
			t.Fatal(err)
		}
		want(t, "the same state", m.nodes["n2"].View().Index(), first.View().Index())
		m.stop()
	})
}

func TestRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, nil)
		m.grow(1)
		if err := m.nodes["n1"].RemoveMember(within60(t), "n1"); !errors.Is(err, ErrLastVoter) {
			t.Fatalf("the last voter: %v", err)
		}
		m.grow(4)
		m.until("voters", func() bool { return m.voters(m.nodes["n1"]) == 3 })
		// A follower asks for it; the spare takes the place.
		if err := m.nodes["n4"].RemoveMember(within60(t), "n2"); err != nil {
			t.Fatal(err)
		}
		m.until("replaced", func() bool { return m.voters(m.nodes["n1"]) == 3 && len(m.nodes["n1"].Members()) == 3 })
		if err := m.nodes["n4"].RemoveMember(within60(t), "n2"); err != nil {
			t.Fatalf("again: %v", err)
		}
		// The leader goes by itself.
		if err := m.nodes["n1"].RemoveMember(within60(t), "n1"); err != nil {
			t.Fatal(err)
		}
		want(t, "it leads no more", m.nodes["n1"].Leading(), false)
		m.down("n1")
		m.down("n2")
		m.until("two are left, and one votes", func() bool {
			leader := m.leader()
			return leader != "" && m.voters(m.nodes[leader]) == 1 && len(m.nodes[leader].Members()) == 2
		})
		if _, err := m.nodes["n3"].CreateActor(within60(t), CreateActor{Name: "ada", ID: "id"}); err != nil {
			t.Fatal(err)
		}
		if err := m.nodes["n3"].RemoveMember(within60(t), ""); !errors.Is(err, ErrMalformed) {
			t.Fatalf("nobody: %v", err)
		}
		m.stop()
	})
}

func TestDeadVoterIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, func(c *Config) { c.ReplaceAfter = 20 * time.Second })
		m.grow(4)
		first := m.nodes["n1"]
		m.until("voters", func() bool { return m.voters(first) == 3 })
		votes := func(id NodeID) bool {
			return slices.ContainsFunc(first.Members(), func(m Member) bool { return m.ID == id && m.Voter })
		}
		spare := NodeID("n2")
		for votes(spare) {
			spare = NodeID(fmt.Sprint("n", 1+int(spare[1]-'0')))
		}
		dead := NodeID("n2")
		if dead == spare {
			dead = "n3"
		}
		m.down(dead)
		time.Sleep(10 * time.Second)
		want(t, "still a voter", votes(dead), true)
		m.until("replaced", func() bool { return votes(spare) && !votes(dead) })
		want(t, "voters", m.voters(first), 3)
		// It comes back, and follows without a vote.
		m.up(dead)
		if _, err := m.nodes[dead].CreateActor(within60(t), CreateActor{Name: "ada", ID: "id"}); err != nil {
			t.Fatal(err)
		}
		want(t, "voters", m.voters(first), 3)
		m.stop()
	})
}

func TestHandOverIsQuick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, func(c *Config) { c.Heartbeat = time.Second })
		m.grow(3)
		m.until("voters", func() bool { return m.voters(m.nodes["n1"]) == 3 })
		began := time.Now()
		if err := m.nodes["n1"].TransferLeadership(within60(t)); err != nil {
			t.Fatal(err)
		}
		if _, err := m.nodes["n1"].CreateActor(within60(t), CreateActor{Name: "ada", ID: "id"}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 500*time.Millisecond {
			t.Errorf("the next command came %s after the hand-over", took)
		}
		// One who does not lead has nothing to hand over, and the others are unhurt.
		if err := m.nodes["n1"].TransferLeadership(within60(t)); err != nil {
			t.Fatal(err)
		}
		m.stop()
	})
}

func TestOtherMeshIsRefused(t *testing.T) {
	dir := t.TempDir()
	r := open(t, Config{Dir: dir, ClusterID: "ours"})
	want(t, "identity", r.View().ClusterID(), "ours")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	// What is on the disk is known to be another's once it is applied.
	if _, err := Open(within60(t), Config{Dir: dir, NodeID: "n1", ClusterID: "theirs"}); !errors.Is(err, ErrWrongCluster) {
		t.Fatalf("%v", err)
	}
	open(t, Config{Dir: dir, ClusterID: "ours"})
}

func TestRecoveryFromOneNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, nil)
		m.grow(3)
		m.until("voters", func() bool { return m.voters(m.nodes["n1"]) == 3 })
		node, err := m.nodes["n2"].RegisterNode(within60(t), RegisterNode{ID: "n2"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.nodes["n2"].CreateActor(within60(t), CreateActor{Name: "ada", ID: "id"}); err != nil {
			t.Fatal(err)
		}
		out, err := m.nodes["n2"].ClaimSession(within60(t), ClaimSession{Key: key("ada", 1), Name: "x", Owner: "n2", Incarnation: node.Incarnation})
		if err != nil {
			t.Fatal(err)
		}
		if err := Recover(m.dirs["n2"], "n2"); !errors.Is(err, ErrLocked) {
			t.Fatalf("while it runs: %v", err)
		}
		for _, id := range []NodeID{"n1", "n2", "n3"} {
			m.down(id)
		}
		if err := Recover(m.dirs["n2"], "n3"); !errors.Is(err, ErrWrongNode) {
			t.Fatalf("under another name: %v", err)
		}
		for range 2 { // again is harmless
			if err := Recover(m.dirs["n2"], "n2"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second) // snapshots are told apart by time
		}
		if err := Recover(t.TempDir(), "n2"); !errors.Is(err, ErrDamaged) {
			t.Fatalf("nothing to recover: %v", err)
		}
		r := m.up("n2")
		want(t, "leads alone", r.Leading(), true)
		want(t, "identity", r.View().ClusterID(), "mesh")
		want(t, "recovery", r.View().Recovery(), 1)
		s, _ := r.View().Session(key("ada", 1))
		want(t, "the session is lost", s.State, SessionLost)
		want(t, "for this reason", s.Loss.Reason, LossMeshRecovered)
		next, err := r.RegisterNode(within60(t), RegisterNode{ID: "n2"})
		if err != nil || next.Incarnation <= node.Incarnation+1 {
			t.Fatalf("life %d after %d, %v", next.Incarnation, node.Incarnation, err)
		}
		again, err := r.ClaimSession(within60(t), ClaimSession{Key: key("ada", 1), Owner: "n2", Incarnation: next.Incarnation})
		if err != nil || again.Session.Epoch < out.Session.Epoch+1<<recoveryShift {
			t.Fatalf("%+v, %v", again, err)
		}
		m.down("n2")
		want(t, "told once", m.up("n2").View().Recovery(), 1)
		// The others come back fresh.
		delete(m.dirs, "n3")
		m.up("n3")
		if err := m.nodes["n2"].AddMember(within60(t), "n3"); err != nil {
			t.Fatal(err)
		}
		m.until("n3 follows", func() bool { return m.nodes["n3"].View().Recovery() == 1 })
		m.stop()
	})
}

// Whatever happens to the members, the plan converges to an odd number of voters, the leader
// among them, and never takes a step that it reverts.
func TestPlanConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]int{1, 3, 5}).Draw(t, "most")
		members := []memberStatus{{id: "self", voter: true, self: true, responsive: true}}
		for i := range rapid.IntRange(0, 9).Draw(t, "others") {
			m := memberStatus{id: NodeID(fmt.Sprint("n", i)), voter: rapid.Bool().Draw(t, "voter")}
			switch rapid.IntRange(0, 3).Draw(t, "health") {
			case 0:
				m.dead = true
			case 1:
				m.responsive = true
			case 2:
				m.responsive, m.ready = true, true
			}
			members = append(members, m)
		}
		count := func() (voters, dead, ready int) {
			for _, m := range members {
				if m.voter {
					voters++
				}
				if m.voter && m.dead {
					dead++
				}
				if !m.voter && m.ready {
					ready++
				}
			}
			return voters, dead, ready
		}
		var trace bytes.Buffer
		even := 0
		for steps := 0; ; steps++ {
			if steps > 3*len(members) {
				t.Fatalf("no rest:%s", trace.String())
			}
			if voters, _, _ := count(); voters%2 == 0 {
				even++
			} else {
				even = 0
			}
			if even > 1 {
				t.Fatalf("an even number of voters for more than one step:%s", trace.String())
			}
			s, due := planVoters(members, most)
			if !due {
				break
			}
			fmt.Fprintf(&trace, " %+v", s)
			at := slices.IndexFunc(members, func(m memberStatus) bool { return m.id == s.id })
			if members[at].voter == s.promote || members[at].self || s.promote && !members[at].ready {
				t.Fatalf("a step for nothing:%s", trace.String())
			}
			members[at].voter = s.promote
		}
		voters, dead, ready := count()
		live := 0
		for _, m := range members {
			if !m.dead {
				live++
			}
		}
		if voters%2 == 0 || voters > max(most, 1) {
			t.Fatalf("%d voters of %d:%s", voters, len(members), trace.String())
		}
		if dead > 0 && (ready > 0 || voters > 3) {
			t.Fatalf("a dead voter stays with %d voters and %d spare ones:%s", voters, ready, trace.String())
		}
		if voters+2 <= min(votersFor(live), most) && ready >= 2 {
			t.Fatalf("%d voters, and %d more are ready:%s", voters, ready, trace.String())
		}
	})
}

func TestStatesHaveNames(t *testing.T) {
	var all []string
	for s := LeasePending; s <= LeaseEnded; s++ {
		all = append(all, s.String())
	}
	want(t, "names", strings.Join(all, " "), "pending held ending over")
}
