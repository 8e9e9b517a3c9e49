package node_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// The speed goals, each beside the bare mechanism that it stands on, measured in
// the same run on the same interpreter. Figures are medians; p99 where it says so.

// samples are repeated measurements of one duration.
type samples []time.Duration

func (s samples) at(q float64) time.Duration {
	s = slices.Clone(s)
	slices.Sort(s)
	return s[min(len(s)-1, int(q*float64(len(s))))]
}

func (s samples) report(b *testing.B, name string) {
	b.ReportMetric(float64(s.at(0.5).Nanoseconds())/1e3, name+"-us")
	b.ReportMetric(float64(s.at(0.99).Nanoseconds())/1e3, name+"-p99-us")
}

func measure(n int, f func()) samples {
	s := make(samples, n)
	for i := range s {
		began := time.Now()
		f()
		s[i] = time.Since(began)
	}
	return s
}

// took is how long the node worked on a call, without the HTTP server.
func took(res surfaces.Result) time.Duration {
	return time.Duration(res.DurationMS * float64(time.Millisecond))
}

// interpreter returns the Python that the node uses.
func (w *world) interpreter(b *testing.B) string {
	b.Helper()
	path, err := strconv.Unquote(string(ok(b, w.once("import sys; sys.executable")).Result))
	if err != nil {
		b.Fatal(err)
	}
	return path
}

// pipe is a resident interpreter behind two plain pipes, the baseline.
type pipe struct {
	in  io.Writer
	out *bufio.Reader
}

func newPipe(b *testing.B, interpreter, program string) *pipe {
	b.Helper()
	cmd := exec.Command(interpreter, "-u", "-c", program)
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			b.Error(err)
		}
	})
	return &pipe{in, bufio.NewReader(out)}
}

func (p *pipe) ask(b *testing.B, line string) string {
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		b.Fatal(err)
	}
	answer, err := p.out.ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(answer)
}

const evalLoop = `
import sys
x = 1
for line in sys.stdin:
    sys.stdout.write(repr(eval(compile(line, "<floor>", "eval"))) + "\n"); sys.stdout.flush()
`

// forkLoop answers each line from a fork: the baseline of a stateless call and of a copy.
const forkLoop = `
import os, sys, gc
if len(sys.argv) > 1: pass
exec(os.environ.get("FLOOR_SETUP", ""))
x = 1
gc.freeze()
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        os.write(1, (repr(eval(compile(line, "<floor>", "eval"))) + "\n").encode())
        os._exit(0)
    os.waitpid(pid, 0)
`

func BenchmarkStateful(b *testing.B) {
	w := fresh(b)
	ok(b, w.keep("s", "x = 1"))
	floor := newPipe(b, w.interpreter(b), evalLoop)
	floor.ask(b, "x+1")
	for b.Loop() {
		const n = 2000
		var inside samples
		bare := measure(n, func() { floor.ask(b, "x+1") })
		door := measure(n, func() { inside = append(inside, took(w.keep("s", "x+1"))) })
		bare.report(b, "pipe")
		inside.report(b, "node")
		door.report(b, "http")
		b.ReportMetric(float64(inside.at(0.5))/float64(bare.at(0.5)), "node/pipe")
	}
}

func BenchmarkStateless(b *testing.B) {
	w := fresh(b)
	interpreter := w.interpreter(b)
	floor := newPipe(b, interpreter, forkLoop)
	floor.ask(b, "x+1")
	for b.Loop() {
		var inside samples
		bare := measure(200, func() { floor.ask(b, "x+1") })
		cold := measure(20, func() {
			if err := exec.Command(interpreter, "-c", "x = 1; print(x+1)").Run(); err != nil {
				b.Fatal(err)
			}
		})
		measure(200, func() { inside = append(inside, took(w.once("1+1"))) })
		bare.report(b, "fork")
		cold.report(b, "cold")
		inside.report(b, "node")
		b.ReportMetric(float64(inside.at(0.5))/float64(bare.at(0.5)), "node/fork")
		b.ReportMetric(float64(cold.at(0.5))/float64(inside.at(0.5)), "cold/node")
	}
}

func BenchmarkReadOnlyOfAGigabyte(b *testing.B) {
	w := fresh(b)
	interpreter := w.interpreter(b)
	const setup = "blocks = [bytes([65]) * 4096 for _ in range(1 << 18)]"
	b.Setenv("FLOOR_SETUP", setup)
	floor := newPipe(b, interpreter, forkLoop)
	floor.ask(b, "len(blocks)")
	ok(b, w.keep("big", setup))
	for b.Loop() {
		var inside samples
		bare := measure(50, func() { floor.ask(b, "len(blocks)") })
		measure(50, func() {
			res := w.read("big", "len(blocks)")
			value(b, res, "262144")
			inside = append(inside, took(res))
		})
		pickled := took(ok(b, w.keep("big", "import pickle; len(pickle.loads(pickle.dumps(blocks, 5)))")))
		bare.report(b, "fork")
		inside.report(b, "node")
		b.ReportMetric(float64(inside.at(0.5))/float64(bare.at(0.5)), "node/fork")
		b.ReportMetric(float64(pickled)/float64(inside.at(0.5)), "pickle/node")
	}
}

// BenchmarkGigabyteOfOutput compares a gigabyte that a call prints with the same
// gigabyte through a pipe to a reader that counts.
func BenchmarkGigabyteOfOutput(b *testing.B) {
	w := fresh(b)
	for b.Loop() {
		cmd := exec.Command("head", "-c", "1G", "/dev/zero")
		out, err := cmd.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, onlyReader{out}); err != nil || n != 1<<30 {
			b.Fatal(n, err)
		}
		if err := cmd.Wait(); err != nil {
			b.Fatal(err)
		}
		bare := time.Since(began)
		res := ok(b, w.once("import subprocess; subprocess.run(['head', '-c', '1G', '/dev/zero'])"))
		if res.Truncated.Stdout.Total != 1<<30 {
			b.Fatal(show(res))
		}
		b.ReportMetric(1/bare.Seconds(), "pipe-GiB/s")
		b.ReportMetric(1/took(res).Seconds(), "node-GiB/s")
		b.ReportMetric(bare.Seconds()/took(res).Seconds(), "node/pipe-speed")
	}
}

// onlyReader hides the methods that would let io.Copy use splice.
type onlyReader struct{ io.Reader }

func BenchmarkReady(b *testing.B) {
	for b.Loop() {
		began := time.Now()
		w := start(b, b.TempDir())
		ready := time.Since(began)
		value(b, w.once("1"), "1")
		first := time.Since(began)
		w.stop()
		b.ReportMetric(float64(ready.Milliseconds()), "ready-ms")
		b.ReportMetric(float64(first.Milliseconds()), "first-call-ms")
	}
}

// BenchmarkIdleSessions counts the memory that 1,000 sessions cost, by what the
// machine has left.
func BenchmarkIdleSessions(b *testing.B) {
	for b.Loop() {
		w := start(b, b.TempDir())
		before := available(b)
		const actors, each = 50, 20
		for i := range actors {
			a := w.newActor(b, fmt.Sprintf("idle-%d", i))
			for j := range each {
				ok(b, a.keep(fmt.Sprint("s", j), "import json; x = list(range(100))"))
			}
		}
		after := available(b)
		b.ReportMetric(float64(before-after)/(1<<20), "MiB-for-1000")
		b.ReportMetric(float64(before-after)/(1<<10)/(actors*each), "KiB/session")
		w.stop()
	}
}

func available(b *testing.B) int64 {
	b.Helper()
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(info)) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			return kib << 10
		}
	}
	b.Fatal("no MemAvailable")
	return 0
}
