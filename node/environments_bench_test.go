package node_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/locusrun/locus/node"
)

// BenchmarkEnvironment: a call in a built environment beside the same call without
// one, and the first call after a restart, when the environment is on the disk.
func BenchmarkEnvironment(b *testing.B) {
	dir := b.TempDir()
	w := start(b, dir)
	id := w.venv(project("bench", "idna"))
	if res := w.exec(args{"code": "1", "venv_id": id}); res.Error != nil {
		b.Skipf("the environment cannot be built: %s", *res.Error)
	}
	ok(b, w.keep("s", "x = 1"))
	within := func(a args) args { return a.with(args{"venv_id": id}) }
	kept := args{"code": "x = 1", "state_mode": "stateful", "session_name": "in"}
	ok(b, w.exec(within(kept)))
	for b.Loop() {
		const n = 300
		var plain, built, plainKept, builtKept samples
		for range n { // alternately, so that other load affects all alike
			plain = append(plain, took(w.once("1+1")))
			built = append(built, took(w.exec(within(args{"code": "1+1"}))))
			plainKept = append(plainKept, took(w.keep("s", "x+1")))
			builtKept = append(builtKept, took(w.exec(within(kept.with(args{"code": "x+1"})))))
		}
		built.report(b, "stateless")
		b.ReportMetric(float64(built.at(0.5))/float64(plain.at(0.5)), "stateless/without")
		builtKept.report(b, "stateful")
		b.ReportMetric(float64(builtKept.at(0.5))/float64(plainKept.at(0.5)), "stateful/without")

		var first, firstBuilt samples
		for range 5 {
			w.stop()
			// A builder that fails shows that it is not run.
			w = start(b, dir, func(c *node.Config) { c.Environments.Uv = filepath.Join(os.DevNull, "uv") })
			first = append(first, took(ok(b, w.once("1+1"))))
			firstBuilt = append(firstBuilt, took(ok(b, w.exec(within(args{"code": "1+1"})))))
		}
		first.report(b, "first")
		firstBuilt.report(b, "first-in-environment")
	}
}
