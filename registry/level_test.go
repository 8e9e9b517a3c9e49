package registry

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// knowing is a feed to the state machine of a release that knows a level.
func knowing(knows uint8) *feed { return &feed{m: newMachine(slog.New(slog.DiscardHandler), knows)} }

func TestTheMeshsLevelIsWhatAllNodesKnow(t *testing.T) {
	f := knowing(3)
	do[initOutcome](t, f, initCluster{ID: "mesh", Level: 1})
	for _, step := range []struct {
		what  string
		do    command
		level uint8
	}{
		{"a node of the first release", RegisterNode{ID: "n1"}, 1},
		{"one that knows more", RegisterNode{ID: "n2", Level: 3}, 1},
		{"both know two", RegisterNode{ID: "n1", Level: 2}, 2},
		{"both know three", RegisterNode{ID: "n1", Level: 3}, 3},
		{"a node of the first release comes late", RegisterNode{ID: "n3"}, 3},
		{"all know four but that one", RegisterNode{ID: "n1", Level: 4}, 3},
	} {
		do[RegisterOutcome](t, f, step.do)
		want(t, step.what, meshLevel(f.view().tables()), step.level)
	}

	g := knowing(2)
	do[initOutcome](t, g, initCluster{ID: "mesh", Level: 1})
	do[RegisterOutcome](t, g, RegisterNode{ID: "n1", Level: 2})
	want(t, "alone", meshLevel(g.view().tables()), uint8(2))
	g = knowing(2)
	do[initOutcome](t, g, initCluster{ID: "mesh", Level: 1})
	do[RegisterOutcome](t, g, RegisterNode{ID: "n1"})
	do[RegisterOutcome](t, g, RegisterNode{ID: "n2", Level: 2})
	do[MarkNodeOutcome](t, g, MarkNode{ID: "n1", Incarnation: 1, State: NodeExpired})
	want(t, "an old node that is gone", meshLevel(g.view().tables()), uint8(1))
	do[NodeOutcome](t, g, RemoveNode{ID: "n1"})
	want(t, "and is removed", meshLevel(g.view().tables()), uint8(2))
}

// A release that is older than the mesh's level no longer changes its state, so that a newer
// one can continue from it.
func TestAnOutdatedReleaseChangesNothing(t *testing.T) {
	old, next := knowing(1), knowing(2)
	for _, f := range []*feed{old, next} {
		do[initOutcome](t, f, initCluster{ID: "mesh", Level: 1})
		do[RegisterOutcome](t, f, RegisterNode{ID: "n1"})
	}
	before, state := old.view(), old.hash()
	for _, c := range []command{RegisterNode{ID: "n1", Level: 2}, CreateActor{Name: "ada", ID: "a"}} {
		do[any](t, next, c)
		old.index++
		answer := old.m.Apply(entry(t, old.index, c)).(reply)
		want(t, "verdict", answer.verdict, unsupported)
	}
	want(t, "its state", old.hash(), state)
	want(t, "its latest index", old.view().Index(), before.Index())
	if err := old.m.behind(); !errors.Is(err, ErrNewerLevel) {
		t.Errorf("it says %v", err)
	}
	if _, err := old.m.Snapshot(); !errors.Is(err, ErrNewerLevel) {
		t.Errorf("it gives a snapshot: %v", err)
	}

	late := knowing(1)
	do[initOutcome](t, late, initCluster{ID: "other", Level: 1})
	state = late.hash()
	if err := late.m.Restore(io.NopCloser(bytes.NewReader(snapshotOf(t, next.m)))); !errors.Is(err, ErrNewerLevel) || !errors.Is(err, ErrSnapshot) {
		t.Errorf("a snapshot of a higher level: %v", err)
	}
	want(t, "its state", late.hash(), state)
	if err := late.m.behind(); !errors.Is(err, ErrNewerLevel) {
		t.Errorf("it says %v", err)
	}
	of2 := snapshotOf(t, next.m)
	of2[len(snapshotMagic)] = snapshotVersion + 1
	if err := knowing(1).m.Restore(io.NopCloser(bytes.NewReader(of2))); !errors.Is(err, ErrNewerLevel) {
		t.Errorf("a snapshot of a later version: %v", err)
	}
}

// Commands on the log are of the mesh's level, whatever their writer knows.
func TestCommandsAreOfTheMeshsLevel(t *testing.T) {
	c := CreateActor{Name: "ada", ID: "a"}
	for _, at := range []uint8{1, 2} {
		b, err := encodeCommand(c, Proposal{Request: RequestID{1}, At: 1}, at)
		if err != nil {
			t.Fatal(err)
		}
		want(t, "level", b[0], at)
		f := knowing(2)
		do[initOutcome](t, f, initCluster{ID: "mesh", Level: 1})
		want(t, "verdict at level 1", f.m.Apply(&raft.Log{Index: 2, Data: b}).(reply).verdict, map[uint8]verdict{1: accepted, 2: unsupported}[at])
	}
	if _, err := encodeCommand(c, Proposal{Request: RequestID{1}, At: 1}, 0); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a kind of a higher level: %v", err)
	}
}

// Nodes are given the next release one by one, and back again as long as one of them
// has the old one. All replicas stay equal, nothing is lost but with a restart of its
// owner, and when all have the next release none may go back.
func TestARollingUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		levels := map[NodeID]uint8{"n1": 1, "n2": 1, "n3": 1}
		m := newMesh(t, func(c *Config) { c.level = levels[c.NodeID] })
		m.grow(3)
		m.until("three vote", func() bool { return m.voters(m.nodes["n1"]) == 3 })
		sessions := map[NodeID]Session{}
		serve := func(id NodeID) {
			t.Helper()
			life, err := m.nodes[id].RegisterNode(within60(t), RegisterNode{ID: id})
			if err != nil {
				t.Fatalf("%s: %v", id, err)
			}
			out, err := m.nodes[id].ClaimSession(within60(t), ClaimSession{Key: key("ada", int(id[1]-'0')), Owner: id, Incarnation: life.Incarnation})
			if err != nil || out.Result != Claimed {
				t.Fatalf("%s: %v, %v", id, out, err)
			}
			sessions[id] = out.Session
		}
		if _, err := m.nodes["n1"].CreateActor(within60(t), CreateActor{Name: "ada", ID: "a"}); err != nil {
			t.Fatal(err)
		}
		for id := range m.nodes {
			serve(id)
		}
		restart := func(id NodeID, level uint8) {
			t.Helper()
			if err := m.nodes[id].TransferLeadership(within60(t)); err != nil {
				t.Fatal(err)
			}
			m.down(id)
			levels[id] = level
			m.up(id)
			if _, err := m.nodes[id].AwaitLeader(within60(t)); err != nil {
				t.Fatal(err)
			}
			serve(id)
			for at, r := range m.nodes {
				if _, err := r.Fresh(within60(t)); err != nil {
					t.Fatalf("%s: %v", at, err)
				}
				for owner, s := range sessions {
					have, _ := r.View().Session(s.Key)
					if have.Owner != owner || have.State != SessionLive || have.Epoch != s.Epoch {
						t.Errorf("%s knows session %v of %s as %+v", at, s.Key, owner, have)
					}
				}
			}
		}
		same := func(level uint8) {
			t.Helper()
			m.until("all are equal", func() bool {
				var hashes [][32]byte
				for _, r := range m.nodes {
					hashes = append(hashes, (frozen{generation: r.machine.now.Load()}).hash())
				}
				return hashes[0] == hashes[1] && hashes[1] == hashes[2]
			})
			for id, r := range m.nodes {
				want(t, "the level that "+string(id)+" acts by", meshLevel(r.View().tables()), level)
				if err := r.Health(); err != nil {
					t.Errorf("%s: %v", id, err)
				}
			}
		}
		restart("n2", 2)
		restart("n1", 2)
		same(1)
		restart("n2", 1) // there is a way back
		restart("n2", 2)
		same(1)
		restart("n3", 2)
		same(2)

		// There is none any more.
		m.down("n1")
		levels["n1"] = 1
		w := m.net.layer("n1")
		r, err := Open(within60(t), Config{Dir: m.dirs["n1"], NodeID: "n1", Join: true, ClusterID: "mesh", Layer: w, Forward: w.forward,
			Heartbeat: 200 * time.Millisecond, level: 1})
		if err == nil {
			m.nodes["n1"] = r
			m.until("the old release says that it is left behind", func() bool { return errors.Is(r.Health(), ErrNewerLevel) })
			if _, err := r.RegisterNode(within60(t), RegisterNode{ID: "n1"}); !errors.Is(err, ErrNewerLevel) {
				t.Errorf("it registers: %v", err)
			}
			m.down("n1")
		} else if !errors.Is(err, ErrNewerLevel) {
			t.Fatal(err)
		}
		levels["n1"] = 2
		m.up("n1")
		if _, err := m.nodes["n1"].AwaitLeader(within60(t)); err != nil {
			t.Fatal(err)
		}
		serve("n1")
		same(2)
		m.stop()
	})
}

// A directory of one node that a newer release has written is refused by an older one.
func TestADirectoryOfANewerRelease(t *testing.T) {
	dir := t.TempDir()
	open := func(level uint8) (*Registry, error) {
		return Open(within60(t), Config{Dir: dir, NodeID: "n1", level: level, SnapshotEvery: 8})
	}
	r, err := open(2)
	if err != nil {
		t.Fatal(err)
	}
	before := r.View().ClusterID()
	for range 2 {
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if old, err := open(1); !errors.Is(err, ErrNewerLevel) || errors.Is(err, ErrDamaged) {
			t.Fatalf("%v, %v", old, err)
		}
		if r, err = open(2); err != nil {
			t.Fatal(err)
		}
		want(t, "the mesh", r.View().ClusterID(), before)
		if err := r.raft.Snapshot().Error(); err != nil { // now it is not from the log alone
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}
