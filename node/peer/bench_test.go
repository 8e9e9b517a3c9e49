package peer_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/locusrun/locus/surfaces"
)

// BenchmarkRouted is a whole call on another node that does nothing there, beside
// one round trip of 64 bytes over the same connection.
func BenchmarkRouted(b *testing.B) {
	p := newPair(b, loopback(b), func(context.Context, surfaces.Attempt, <-chan struct{}) surfaces.Outcome { return done() })
	message := make([]byte, 64)
	var routed, floor []time.Duration
	for b.Loop() {
		began := time.Now()
		if _, err := p.asker.Call(b.Context(), "owner", "echo", message); err != nil {
			b.Fatal(err)
		}
		floor = append(floor, time.Since(began))
		began = time.Now()
		if out, _ := p.ask(b.Context(), call(uuid.NewString(), time.Minute), nil); out.Result.Error != nil {
			b.Fatal(*out.Result.Error)
		}
		routed = append(routed, time.Since(began))
	}
	slices.Sort(routed)
	slices.Sort(floor)
	r, f := routed[len(routed)/2], floor[len(floor)/2]
	b.ReportMetric(float64(r.Nanoseconds())/1e3, "routed-us")
	b.ReportMetric(float64(f.Nanoseconds())/1e3, "round-trip-us")
	b.ReportMetric(float64(r)/float64(f), "ratio")
}
