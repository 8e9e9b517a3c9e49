package engine

import (
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/locusrun/locus/surfaces"
)

// A session that has run nothing is started by the first caller, in its turn, which needs a
// slot. A reader must not hold the slot and wait for the turn of a call that has the turn
// and waits for a slot.
func TestReaderDoesNotBlockTheFirstCallOfItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		d := &desk{run: func(code string) {
			if code == "hold" {
				<-release
			}
		}}
		e := New(Config{Node: "n", Kernels: d, MaxRunning: 1, Log: slog.New(slog.DiscardHandler)})
		var all sync.WaitGroup
		run := func(id string, mode surfaces.StateMode, code string) {
			all.Go(func() {
				if out := e.attempt(id, mode, keyOne, 1, code, nil); out.Result.Error != nil {
					t.Errorf("%s: %s, want no Result.Error", id, *out.Result.Error)
				}
			})
			synctest.Wait()
		}
		run("other", surfaces.Stateless, "hold")
		run("reader", surfaces.ReadOnly, "")
		run("first", surfaces.Stateful, "")
		close(release)
		all.Wait()
		e.Close()
	})
}
