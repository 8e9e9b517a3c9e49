package registry

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// A command that waits for a leader which no longer answers is sent to the next leader as soon
// as there is one.
func TestACommandGoesToTheNextLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, nil)
		m.grow(3)
		m.until("voters", func() bool { return m.voters(m.nodes["n1"]) == 3 })
		waiter := m.other()
		m.net.isolate(m.leader(), true)
		began := time.Now()
		got, err := m.nodes[waiter].CreateActor(within60(t), CreateActor{Name: "ada", ID: "1"})
		if err != nil || got.Result != ActorCreated {
			t.Fatalf("%+v, %v", got, err)
		}
		if took := time.Since(began); took >= leaderTimeout {
			t.Errorf("the command was committed after %s, of the bubble's time", took)
		}
		m.stop()
	})
}

// Voters may be two thirds of the election timeout apart, as on two continents in the fast
// profile. A leader used to resign at every silence of half that timeout, so that such a mesh
// had a new one every second.
func TestADistantMeshKeepsItsLeader(t *testing.T) {
	for name, heartbeat := range map[string]time.Duration{"200 ms, fast profile": 300 * time.Millisecond, "670 ms, default": DefaultHeartbeat} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMesh(t, func(c *Config) { c.Heartbeat = heartbeat })
				m.grow(3)
				m.until("voters", func() bool { return m.voters(m.nodes["n1"]) == 3 })
				m.net.mu.Lock()
				m.net.delay = func() time.Duration { return heartbeat / 3 }
				m.net.mu.Unlock()
				term := m.nodes["n1"].raft.CurrentTerm()
				for range 60 {
					time.Sleep(time.Second)
					want(t, "term", m.nodes["n3"].raft.CurrentTerm(), term)
				}
				m.stop()
			})
		})
	}
}

// A member that has an entry later than most learns that it is committed as soon as it has it,
// not only when raft next sends the commit index.
func TestALateMemberLearnsOfACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, func(c *Config) { c.Heartbeat = time.Second })
		m.grow(3)
		m.until("voters", func() bool { return m.voters(m.nodes["n1"]) == 3 })
		const longest = 20 * time.Millisecond
		m.net.mu.Lock()
		m.net.delay = func() time.Duration { return rand.N(longest) }
		m.net.mu.Unlock()
		for i := range 100 {
			name := fmt.Sprint("actor-", i)
			began := time.Now()
			if _, err := m.nodes["n3"].CreateActor(within60(t), CreateActor{Name: name, ID: name}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 20*longest {
				t.Fatalf("command %d took %s, want at most 20 times the longest delay, %s", i, took, 20*longest)
			}
		}
		m.stop()
	})
}
