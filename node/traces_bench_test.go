package node_test

import (
	"testing"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// What a call costs its caller where traces are sent, beside a node that sends none, in
// turns.
func BenchmarkTraces(b *testing.B) {
	c := collect(b)
	off, on := start(b, b.TempDir()), start(b, b.TempDir(), c.traced)
	for name, call := range map[string]func(w *world) surfaces.Result{
		"stateless": func(w *world) surfaces.Result { return w.once("1") },
		"stateful":  func(w *world) surfaces.Result { return w.keep("s", "1") },
	} {
		b.Run(name, func(b *testing.B) {
			var without, with samples
			took := func(w *world) time.Duration {
				began := time.Now()
				ok(b, call(w))
				return time.Since(began)
			}
			for range 20 {
				took(off)
				took(on)
			}
			for b.Loop() {
				without, with = append(without, took(off)), append(with, took(on))
			}
			without.report(b, "off")
			with.report(b, "on")
			b.ReportMetric(float64(with.at(0.5))/float64(without.at(0.5)), "on/off")
		})
	}
}
