package engine

import (
	"testing"
	"testing/synctest"

	"github.com/locusrun/locus/node/sandbox"
)

// slowList is a kernel whose processes take their time to be listed.
type slowList struct {
	*paper
	listed chan struct{}
}

func (k slowList) Group() sandbox.Group { return slowGroup{paperGroup{p: k.paper}, k.listed} }

type slowGroup struct {
	paperGroup
	listed chan struct{}
}

func (g slowGroup) Pids() ([]int, error) {
	<-g.listed
	return g.paperGroup.Pids()
}

// Once Close has begun it waits for no new goroutine. A call that ends then lists itself what
// it left running, so that nothing of the engine is at work when its processes are gone.
func TestNoGoroutineListsProcessesOfAClosedEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, d, _ := idleEngine(t, nil)
		wentWell(t, e.stateful("1", keyOne, 1, "", nil))
		for _, closed := range []bool{false, true} {
			e.mu.Lock()
			s := e.sessions[keyOne]
			e.closed = closed
			e.mu.Unlock()
			if err := s.wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			listed := make(chan struct{})
			s.mu.Lock()
			s.kernel = slowList{d.last(), listed}
			s.mu.Unlock()
			s.alone = false
			returned := make(chan struct{})
			go func() { s.releaseTurn(); close(returned) }()
			synctest.Wait()
			select {
			case <-returned:
				if closed {
					t.Error("a goroutine that nobody waits for lists the processes")
				}
			default:
				if !closed {
					t.Error("the caller waits for the list")
				}
			}
			close(listed)
			<-returned
			synctest.Wait()
		}
	})
}
