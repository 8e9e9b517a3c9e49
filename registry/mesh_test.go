package registry

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestNodesJoinAndBecomeVoters(t *testing.T) {
	for _, c := range []struct{ nodes, most, voters int }{{2, 0, 1}, {3, 0, 3}, {4, 0, 3}, {5, 0, 5}, {6, 3, 3}, {3, 1, 1}} {
		t.Run(fmt.Sprintf("%d nodes, at most %d", c.nodes, c.most), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMesh(t, func(conf *Config) { conf.MaxVoters = c.most })
				m.grow(c.nodes)
				m.until("voters", func() bool { return m.voters(m.nodes["n1"]) == c.voters })
				time.Sleep(5 * time.Second)
				for id, r := range m.nodes {
					want(t, "voters as seen by "+string(id), m.voters(r), c.voters)
					want(t, "members as seen by "+string(id), len(r.Members()), c.nodes)
					want(t, "identity", r.View().ClusterID(), "mesh")
					leader, err := r.AwaitLeader(within60(t))
					if err != nil || leader != "n1" {
						t.Fatalf("%s follows %q, %v", id, leader, err)
					}
				}
				m.stop()
			})
		})
	}
}

func TestAnyNodeTakesCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, nil)
		m.grow(5)
		for id, r := range m.nodes {
			node, err := r.RegisterNode(within60(t), RegisterNode{ID: id})
			if err != nil {
				t.Fatal(err)
			}
			got, ok := r.View().Node(id)
			want(t, "seen at once on the node that asked", ok && got.Incarnation == node.Incarnation, true)
		}
		m.until("all know all", func() bool {
			for _, r := range m.nodes {
				if len(r.View().Nodes()) != 5 {
					return false
				}
			}
			return true
		})
		m.stop()
	})
}

func TestFailoverKeepsCommandsGoing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, nil)
		m.grow(3)
		m.until("voters", func() bool { return m.voters(m.nodes["n1"]) == 3 })
		if _, err := m.nodes["n2"].CreateActor(within60(t), CreateActor{Name: "ada", ID: "1"}); err != nil {
			t.Fatal(err)
		}
		m.down("n1")
		began := time.Now()
		if _, err := m.nodes["n2"].CreateActor(within60(t), CreateActor{Name: "bob", ID: "2"}); err != nil {
			t.Fatal(err)
		}
		t.Logf("a command after the leader's death: %s", time.Since(began))
		want(t, "actors", len(m.nodes["n2"].View().Actors()), 2)

		m.until("both know", func() bool { return len(m.nodes["n3"].View().Actors()) == 2 })

		// With one of three left there is no quorum; that is told in time, and reads go on.
		m.down(m.leader())
		var last *Registry
		for _, r := range m.nodes {
			last = r
		}
		began = time.Now()
		_, err := last.CreateActor(within60(t), CreateActor{Name: "eve", ID: "3"})
		if !errors.Is(err, ErrNoQuorum) || !errors.Is(err, ErrUnavailable) {
			t.Fatalf("without a quorum: %v", err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %s to say so", took)
		}
		want(t, "reads", len(last.View().Actors()), 2)
		m.up("n1")
		if _, err := last.CreateActor(within60(t), CreateActor{Name: "eve", ID: "3"}); err != nil {
			t.Fatal(err)
		}
		m.stop()
	})
}
