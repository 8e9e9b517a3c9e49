package registry

import (
	"errors"
	"testing"
	"testing/synctest"
)

// Voters for whom a later term has begun do not confirm an earlier one, and those who
// do not answer confirm nothing.
func TestAttest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, nil)
		m.grow(3)
		m.until("voters", func() bool { return m.voters(m.nodes["n1"]) == 3 })
		leader := m.nodes[m.leader()]
		ready, _ := leader.lead.state()
		if err := leader.confirmQuorum(ready.term); err != nil {
			t.Errorf("the present term: %v", err)
		}
		if err := leader.confirmQuorum(ready.term - 1); !errors.Is(err, errUnconfirmed) {
			t.Errorf("an earlier term: %v", err)
		}
		m.net.isolate(m.other(), true)
		if err := leader.confirmQuorum(ready.term); err != nil {
			t.Errorf("one voter of three away: %v", err)
		}
		m.net.isolate(leader.dir.owner, true)
		if err := leader.confirmQuorum(ready.term); !errors.Is(err, errUnconfirmed) {
			t.Errorf("nobody answers: %v", err)
		}
		m.stop()
	})
}
