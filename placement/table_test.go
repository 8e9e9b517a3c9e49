package placement

import (
	"fmt"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

// TestTable covers every row of the retry table: ending x state mode x on_loss x attempts
// so far.
func TestTable(t *testing.T) {
	endings := map[ending]string{verdict: "verdict", misrouted: "misrouted", alreadyLost: "already lost", lostUnstarted: "lost, unstarted", lostStarted: "lost, started"}
	// want lists the rows whose action is not answer.
	want := map[string]action{}
	for _, mode := range surfaces.StateModes() {
		for _, onLoss := range surfaces.OnLosses() {
			for attempts := 1; attempts <= 2; attempts++ {
				want[row("misrouted", mode, onLoss, attempts)] = reroute
			}
		}
	}
	for _, mode := range []surfaces.StateMode{surfaces.Stateless, surfaces.Stateful} {
		for _, onLoss := range surfaces.OnLosses() {
			for attempts := 1; attempts <= 2; attempts++ {
				want[row("already lost", mode, onLoss, attempts)] = rebuild
			}
		}
		want[row("lost, unstarted", mode, surfaces.Retry, 1)] = retry
		want[row("lost, unstarted", mode, surfaces.NotStarted, 1)] = retry
		want[row("lost, started", mode, surfaces.Retry, 1)] = retry
	}
	rows := 0
	for e, name := range endings {
		for _, mode := range surfaces.StateModes() {
			for _, onLoss := range surfaces.OnLosses() {
				for attempts := 1; attempts <= 2; attempts++ {
					rows++
					key := row(name, mode, onLoss, attempts)
					if got := decide(e, mode, onLoss, attempts); got != want[key] {
						t.Errorf("%s: got action %d, want %d", key, got, want[key])
					}
				}
			}
		}
	}
	if rows != 5*3*3*2 {
		t.Fatalf("walked %d rows", rows)
	}
}

func row(ending string, mode surfaces.StateMode, onLoss surfaces.OnLoss, attempts int) string {
	return fmt.Sprintf("%s / %s / %s / %d", ending, mode, onLoss, attempts)
}

func TestClassify(t *testing.T) {
	for want, out := range map[ending]surfaces.Outcome{
		verdict:       {},
		misrouted:     {Misrouted: true},
		alreadyLost:   {Loss: &surfaces.LostAttempt{Before: true}},
		lostUnstarted: {Loss: &surfaces.LostAttempt{}},
		lostStarted:   {Loss: &surfaces.LostAttempt{MayHaveRun: true}},
	} {
		if got := classify(out); got != want {
			t.Errorf("%+v: got %d, want %d", out, got, want)
		}
	}
}
