package calls

import (
	"context"
	"slices"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

// What the code of a call on another node asks can be here before the news that it
// runs; the caller hears of that first, and never of what needs no answer any more.
func TestPrimitiveEventFollowsTheStartedEvent(t *testing.T) {
	r := NewRecord("call", surfaces.Call{}, func() {})
	r.Event(surfaces.Event{Kind: surfaces.EventPlaced})
	for _, seq := range []string{"1", "2"} {
		r.Event(surfaces.Event{Kind: surfaces.EventPrimitive, ID: seq, Name: "a.b", Data: []byte("{}")})
	}
	r.Settle("2")
	r.Event(surfaces.Event{Kind: surfaces.EventStarted, ID: "call", Name: "node"})
	r.Event(surfaces.Event{Kind: surfaces.EventPrimitive, ID: "3", Name: "a.b", Data: []byte("{}")})
	var told []string
	ctx, enough := context.WithCancel(t.Context())
	_ = r.Follow(ctx, 0, func(e Event) error { // ends with ctx
		if told = append(told, e.Name); len(told) == 3 {
			enough()
		}
		return nil
	})
	if want := []string{"started", "primitive", "primitive"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}
