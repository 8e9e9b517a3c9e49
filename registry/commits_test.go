package registry

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Every node knows at once what was committed, without waiting for raft's next heartbeat.
func TestMembersLearnOfCommitsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, func(c *Config) { c.Heartbeat = 10 * time.Second })
		m.grow(4)
		m.until("voters", func() bool { return m.voters(m.nodes["n1"]) == 3 })
		const delay = time.Millisecond
		m.net.mu.Lock()
		m.net.delay = func() time.Duration { return delay }
		m.net.mu.Unlock()
		for i := range 20 {
			name := fmt.Sprint("a", i)
			began := time.Now()
			if _, err := m.nodes[NodeID(fmt.Sprint("n", 1+i%4))].CreateActor(within60(t), CreateActor{Name: name, ID: "id"}); err != nil {
				t.Fatal(err)
			}
			for id, r := range m.nodes {
				m.until(string(id)+" knows it", func() bool { _, ok := r.View().Actor(name); return ok })
			}
			if took := time.Since(began); took > 100*delay {
				t.Errorf("all know it after %s, of the bubble's time", took)
			}
		}
		m.stop()
	})
}

// A node that was removed is told no more.
func TestARemovedMemberLearnsOfNoCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, nil)
		m.grow(4)
		m.until("voters", func() bool { return m.voters(m.nodes["n1"]) == 3 })
		m.down("n4")
		leader := m.nodes["n1"]
		if err := leader.RemoveMember(within60(t), "n4"); err != nil {
			t.Fatal(err)
		}
		change := func(name string) {
			if _, err := leader.CreateActor(within60(t), CreateActor{Name: name, ID: "id"}); err != nil {
				t.Fatal(err)
			}
		}
		change("first")
		time.Sleep(time.Minute) // of the bubble's time: what tried to tell it has given up
		door := m.net.layer("n4")
		change("second")
		select {
		case c := <-door.incoming:
			t.Error("it was dialled")
			c.Close()
		case <-time.After(time.Minute):
		}
		m.stop()
	})
}
