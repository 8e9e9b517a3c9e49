package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// A node may lose its lease between the moment at which a call is admitted and the one at
// which its code starts. The clock of the call stands still like those of the others.
func TestTheClockOfACallAdmittedJustBeforeASuspensionStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout, suspended = 5 * time.Second, 9 * time.Second
		e, _, _ := idleEngine(t, func(string) { time.Sleep(suspended + timeout/2) })
		first := true
		e.cfg.Serving = func() bool {
			if first {
				first = false
				e.Suspend()
				time.AfterFunc(suspended, e.Resume)
			}
			return true
		}
		out := e.Execute(t.Context(), surfaces.Attempt{CallID: "c", Actor: "a", Number: 1, Call: surfaces.Call{
			Actor: "a", Session: &surfaces.SessionRef{Key: keyOne, Epoch: 1},
			Request: surfaces.Request{Code: "x", Language: surfaces.Python, StateMode: surfaces.Stateful, Timeout: timeout},
		}})
		if out.Result.Status != surfaces.StatusDone {
			t.Errorf("got %s (%+v), want %s", out.Result.Status, out.Result.Error, surfaces.StatusDone)
		}
	})
}
