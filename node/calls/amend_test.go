package calls

import (
	"sync"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

// A call that is given up and comes to its end at the same moment has its true result,
// whichever of the two is first, and each result that stood is noted once.
func TestRealResultReplacesAProvisionalOne(t *testing.T) {
	lost := surfaces.Failed(surfaces.Partial{}, surfaces.CodeOutcomeUnknown, "it is held still")
	table := NewTable()
	for range 2000 {
		r := table.Begin(NewID(), surfaces.Call{}, func(string) {})
		var mu sync.Mutex
		ends, amends := 0, 0
		note := func(amended bool) {
			mu.Lock()
			defer mu.Unlock()
			if amended {
				amends++
			} else {
				ends++
			}
		}
		var early bool
		var both sync.WaitGroup
		both.Go(func() { early = table.End(r, lost, note) })
		both.Go(func() {
			if !table.End(r, surfaces.Result{Status: surfaces.StatusDone}, note) {
				t.Error("the true result was not taken")
			}
		})
		both.Wait()
		if res := r.Result(); res.Status != surfaces.StatusDone || ends != 1 || early != (amends == 1) {
			t.Fatalf("%s, %d ends and %d amends, the early one taken: %v", res.Status, ends, amends, early)
		}
	}
}
