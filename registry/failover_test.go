package registry

import (
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
