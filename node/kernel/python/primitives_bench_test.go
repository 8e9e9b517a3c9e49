package python_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/locusrun/locus/node/kernel"
)

// asking is the floor of a primitive: an interpreter that writes a line to a pipe and
// reads one from another, over and over, and tells how long each round took.
const asking = `
import sys, time
for _ in range(%d):
    t = time.perf_counter()
    sys.stdout.buffer.write(b'{"a":1}\n'); sys.stdout.buffer.flush()
    sys.stdin.buffer.readline()
    sys.stderr.write('%%d\n' %% ((time.perf_counter() - t) * 1e9))
`

// BenchmarkPrimitive compares primitives, one after the other in one program, with
// bare round trips over pipes. The host answers at once.
func BenchmarkPrimitive(b *testing.B) {
	const rounds = 300
	for _, way := range []struct{ name, call string }{
		{"await", "await primitives.ns.fn(a=1)"},
		{"sync", "primitives.ns.fn.sync(a=1)"},
	} {
		b.Run(way.name, func(b *testing.B) {
			h := newHouse(b)
			s := h.session()
			answer := json.RawMessage(`{"result":1}`)
			events := func(e kernel.Event) {
				if err := s.Tell(kernel.Message{Kind: kernel.MessagePrimitive, ID: e.ID, Data: answer}); err != nil {
					b.Error(err)
				}
			}
			code := fmt.Sprintf("import time\nrounds = []\nfor _ in range(%d):\n    t = time.perf_counter()\n    %s\n    rounds.append(int((time.perf_counter() - t) * 1e9))\nrounds", rounds, way.call)
			for b.Loop() {
				var ours, bare samples
				for range 10 { // in turns, so that other work on the machine weighs on both
					bare = append(bare, bareRounds(b, h.interp, rounds)...)
					report, err := s.Run(context.Background(), kernel.Program{Number: 1, Code: code, Tap: &tape{}, Events: events})
					if err != nil || report.Exception != nil {
						b.Fatal(err, report.Exception)
					}
					var took []time.Duration
					if err := json.Unmarshal(report.Result, &took); err != nil {
						b.Fatal(err)
					}
					ours = append(ours, took...)
				}
				compare(b, "a primitive by "+way.name, ours, bare)
			}
		})
	}
}

func bareRounds(b *testing.B, interp string, rounds int) samples {
	b.Helper()
	cmd := exec.Command(interp, "-c", fmt.Sprintf(asking, rounds))
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	told, err := cmd.StderrPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	times := make(chan samples)
	go func() {
		var s samples
		for {
			var t time.Duration
			if _, err := fmt.Fscanln(told, &t); err != nil {
				times <- s
				return
			}
			s = append(s, t)
		}
	}()
	buf := make([]byte, 100)
	for {
		if _, err := out.Read(buf); err != nil {
			break
		}
		if _, err := in.Write([]byte("1\n")); err != nil {
			b.Fatal(err)
		}
	}
	s := <-times
	if err := cmd.Wait(); err != nil || len(s) != rounds {
		b.Fatal(err, len(s))
	}
	return s
}
