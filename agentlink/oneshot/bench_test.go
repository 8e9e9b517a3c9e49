package oneshot

import (
	"context"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// Each prints the median time of a short program and of its baseline in the same run, which
// is a bare interpreter started for it.

func BenchmarkPython(b *testing.B) { compare(b, surfaces.Python, "1 + 1", "-c") }
func BenchmarkShell(b *testing.B)  { compare(b, surfaces.Sh, "echo 2", "-c") }

func compare(b *testing.B, language surfaces.Language, code, flag string) {
	r := needs(b, language)
	path, _ := r.program(context.Background(), language)
	r.Run(context.Background(), Request{Language: string(language), Code: code, Timeout: limit}, nil, nil)
	var ours, floor []time.Duration
	for b.Loop() {
		began := time.Now()
		if err := exec.Command(path, flag, code).Run(); err != nil {
			b.Fatal(err)
		}
		floor = append(floor, time.Since(began))
		r.tasks.Wait() // the interpreter for the next program is at hand
		began = time.Now()
		if res := r.Run(context.Background(), Request{Language: string(language), Code: code, Timeout: limit}, nil, nil); res.Status != surfaces.StatusDone {
			b.Fatal(code, res.Status)
		}
		ours = append(ours, time.Since(began))
	}
	slices.Sort(ours)
	slices.Sort(floor)
	us, bare := ours[len(ours)/2], floor[len(floor)/2]
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(surfaces.Milliseconds(us), "ms")
	b.ReportMetric(surfaces.Milliseconds(bare), "floor-ms")
	b.ReportMetric(float64(us)/float64(bare), "x-floor")
}
