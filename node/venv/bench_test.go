package venv

import (
	"os"
	"testing"
)

// What a warm call pays for its environment, as a ratio to the look at one file
// that it stands on.
func BenchmarkReady(b *testing.B) {
	s := open(b, Config{Uv: newFakeUv(b).path})
	spec := needs("a")
	spec.Lock = []byte("version = 1\n")
	env := ready(b, s, spec)
	took := map[string]float64{}
	measure := func(name string, do func() error) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := do(); err != nil {
					b.Fatal(err)
				}
			}
			took[name] = float64(b.Elapsed().Nanoseconds()) / float64(b.N)
			if bare := took["stat"]; bare > 0 {
				b.ReportMetric(took[name]/bare, "x-stat")
			}
		})
	}
	use := func() error {
		env, err := s.Acquire(b.Context(), spec, nil)
		if err == nil {
			env.Release()
		}
		return err
	}
	measure("stat", func() error {
		_, err := os.Stat(env.Interpreter)
		return err
	})
	measure("in use", use)
	env.Release()
	measure("not in use", use)
}
