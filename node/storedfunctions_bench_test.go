package node_test

import (
	"strconv"
	"testing"
)

// A use of a function beside the stateless call that it is made of.
func BenchmarkStoredFunction(b *testing.B) {
	w := fresh(b)
	w.put(args{"source": "def sf_nothing(): return 1"})
	plain := measure(100, func() { value(b, w.once("1"), "1") })
	for b.Loop() {
		res := w.keep("s", "import time\ntook = []\nfor _ in range(100):\n    began = time.perf_counter()\n    await functions.sf_nothing()\n    took.append(time.perf_counter() - began)\nsorted(took)[50] * 1e6")
		us, err := strconv.ParseFloat(string(ok(b, res).Result), 64)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(us, "use-us")
		b.ReportMetric(us*1e3/float64(plain.at(0.5)), "of-a-stateless-call")
	}
	plain.report(b, "stateless")
}
