package python_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/locusrun/locus/node/kernel"
)

// samples collects durations and tells their median and 99th percentile.
type samples []time.Duration

func (s samples) at(q float64) time.Duration {
	slices.Sort(s)
	return s[min(int(q*float64(len(s))), len(s)-1)]
}

func measure(n int, f func()) samples {
	s := make(samples, n)
	for i := range s {
		start := time.Now()
		f()
		s[i] = time.Since(start)
	}
	return s
}

func compare(b *testing.B, name string, ours, floor samples) {
	b.Helper()
	ratio := float64(ours.at(0.5)) / float64(floor.at(0.5))
	b.Logf("%s: %v median, %v p99; floor %v median, %v p99; ratio %.2f", name, ours.at(0.5), ours.at(0.99), floor.at(0.5), floor.at(0.99), ratio)
	b.ReportMetric(ratio, "x-floor")
	b.ReportMetric(float64(ours.at(0.5).Microseconds()), "us-median")
}

// resident is the floor of a stateful call: an interpreter on two pipes that
// compiles and evaluates a line.
const resident = `
import sys
ns = {}
for line in sys.stdin.buffer:
    sys.stdout.buffer.write(repr(eval(compile(line.decode(), '<in>', 'eval'), ns)).encode() + b'\n')
    sys.stdout.buffer.flush()
`

func pipeFloor(b *testing.B, interp string) (round func(line string) string) {
	b.Helper()
	cmd := exec.Command(interp, "-u", "-c", resident)
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close(); cmd.Wait() })
	r := bufio.NewReader(out)
	return func(line string) string {
		if _, err := io.WriteString(in, line+"\n"); err != nil {
			b.Fatal(err)
		}
		answer, err := r.ReadString('\n')
		if err != nil {
			b.Fatal(err)
		}
		return answer
	}
}

// BenchmarkStateful compares x+1 in a session with the bare pipe.
func BenchmarkStateful(b *testing.B) {
	h := newHouse(b)
	s := h.session()
	s.must("x = 1")
	floor := pipeFloor(b, h.interp)
	floor("[globals().update(x=1)]")
	tap := &tape{}
	for b.Loop() {
		var ours, bare samples
		// In turns, so that other work on the machine weighs on both.
		for range 20 {
			bare = append(bare, measure(100, func() { floor("x+1") })...)
			ours = append(ours, measure(100, func() {
				if _, err := s.Run(context.Background(), kernel.Program{Number: 2, Code: "x+1", Tap: tap}); err != nil {
					b.Fatal(err)
				}
			})...)
		}
		compare(b, "x+1 in a session", ours, bare)
	}
}

// BenchmarkOneShot compares a stateless x+1, from a warm child to its report, with a
// cold interpreter.
func BenchmarkOneShot(b *testing.B) {
	h := newHouse(b)
	tap := &tape{}
	for b.Loop() {
		cold := measure(20, func() {
			if out, err := exec.Command(h.interp, "-c", "x=1; print(x+1)").Output(); err != nil || string(out) != "2\n" {
				b.Fatal(err)
			}
		})
		var ours, claim, kill samples
		for range 100 {
			start := time.Now()
			k, err := h.family.Start(b.Context(), kernel.OneShot, "bench")
			if err != nil {
				b.Fatal(err)
			}
			claim = append(claim, time.Since(start))
			if _, err := k.Run(context.Background(), kernel.Program{Number: 1, Code: "x=1; x+1", Tap: tap}); err != nil {
				b.Fatal(err)
			}
			ours = append(ours, time.Since(start))
			start = time.Now()
			k.Kill()
			kill = append(kill, time.Since(start))
			time.Sleep(5 * time.Millisecond) // the pace of one caller
		}
		b.Logf("claim %v median, %v p99; kill %v", claim.at(0.5), claim.at(0.99), kill.at(0.5))
		compare(b, "stateless x+1 against a cold interpreter", ours, cold)
	}
}

// BenchmarkCopy compares a whole read-only call on sessions of several sizes with
// the bare fork in the same session.
func BenchmarkCopy(b *testing.B) {
	for _, mib := range []int{0, 256, 1024} {
		b.Run(fmt.Sprintf("%dMiB", mib), func(b *testing.B) {
			h := newHouse(b)
			s := h.session()
			s.must(fmt.Sprintf("import os, time\nx = bytearray(b'x') * (%d << 20)\ndef bare():\n    t = time.perf_counter()\n    pid = os.fork()\n    if pid == 0: os._exit(0)\n    d = time.perf_counter() - t\n    os.waitpid(pid, 0)\n    return d, time.perf_counter() - t", mib))
			tap := &tape{}
			for b.Loop() {
				var whole, fork samples
				for range 60 {
					start := time.Now()
					k, _, err := s.Fork(b.Context(), kernel.Copy, "bench")
					if err != nil {
						b.Fatal(err)
					}
					fork = append(fork, time.Since(start))
					if _, err := k.Run(context.Background(), kernel.Program{Number: 1, Code: "len(x)", Tap: tap}); err != nil {
						b.Fatal(err)
					}
					whole = append(whole, time.Since(start))
					k.Kill()
				}
				bare := s.must("sorted(bare() for _ in range(60))[30]")
				b.Logf("Fork %v median; bare fork (parent stopped, child reaped) %s s", fork.at(0.5), bare.result())
				b.Logf("whole call %v median, %v p99", whole.at(0.5), whole.at(0.99))
			}
		})
	}
}

// BenchmarkIdleSessions measures the memory of sessions that do nothing.
func BenchmarkIdleSessions(b *testing.B) {
	h := newHouse(b)
	for b.Loop() {
		before := available(b)
		for range 100 {
			h.session().must("x = 1")
		}
		b.ReportMetric(float64(before-available(b))/100, "KiB/session")
	}
}

func available(b *testing.B) int {
	out, err := exec.Command("awk", "/MemAvailable/ {print $2}", "/proc/meminfo").Output()
	if err != nil {
		b.Fatal(err)
	}
	var n int
	if _, err := fmt.Sscan(string(out), &n); err != nil {
		b.Fatal(err)
	}
	return n
}
