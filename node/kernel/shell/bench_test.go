package shell

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/surfaces"
)

// floor measures what a call is compared with: the same shell, resident, that
// reads one line from a pipe, evaluates it and writes one line back, with nothing
// around it.
func floor(b *testing.B, path string) time.Duration {
	b.Helper()
	cmd := exec.Command(path, "-c", `while IFS= read -r l; do eval "$l"; done`)
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
	defer func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			b.Error(err)
		}
	}()
	lines := bufio.NewReader(out)
	var took samples
	for range 2000 {
		begin := time.Now()
		if _, err := in.Write([]byte("x=$((x+1)); echo $x\n")); err != nil {
			b.Fatal(err)
		}
		if _, err := lines.ReadString('\n'); err != nil {
			b.Fatal(err)
		}
		took.add(begin)
	}
	return took.median()
}

// samples are what single rounds took. Medians are compared, as what else runs on
// the machine makes means useless.
type samples []time.Duration

func (s *samples) add(begin time.Time) { *s = append(*s, time.Since(begin)) }

func (s samples) median() time.Duration {
	slices.Sort(s)
	return s[len(s)/2]
}

// against tells how many floors the median round takes.
func (s samples) against(b *testing.B, bare time.Duration) {
	b.ReportMetric(float64(s.median())/float64(bare), "x-floor")
	b.ReportMetric(float64(bare.Nanoseconds()), "floor-ns")
	b.ReportMetric(float64(s.median().Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(s[len(s)*99/100].Nanoseconds()), "p99-ns")
	b.ReportMetric(0, "ns/op")
}

type nowhere struct{}

func (nowhere) Output(kernel.Stream, []byte) {}

func eachWay(b *testing.B, bench func(b *testing.B, f *bench)) {
	for _, w := range ways {
		b.Run(w.name, func(b *testing.B) { bench(b, open(b, w)) })
	}
}

func BenchmarkCall(b *testing.B) {
	eachWay(b, func(b *testing.B, f *bench) {
		bare := floor(b, f.family.cfg.Path)
		s := f.session()
		p := kernel.Program{Number: 1, Code: "x=$((x+1)); echo $x", Tap: nowhere{}}
		var took samples
		for range b.N {
			begin := time.Now()
			if _, err := s.k.Run(context.Background(), p); err != nil {
				b.Fatal(err)
			}
			took.add(begin)
		}
		took.against(b, bare)
	})
}

func BenchmarkCallWithDiff(b *testing.B) {
	eachWay(b, func(b *testing.B, f *bench) {
		bare := floor(b, f.family.cfg.Path)
		s := f.session()
		p := kernel.Program{Number: 1, Code: "x=$((x+1)); echo $x", Tap: nowhere{}, Diff: true}
		var took samples
		for range b.N {
			begin := time.Now()
			if _, err := s.k.Run(context.Background(), p); err != nil {
				b.Fatal(err)
			}
			took.add(begin)
		}
		took.against(b, bare)
	})
}

// spawnFloor is the start and the end of the shell itself, with nothing to do.
func spawnFloor(b *testing.B, path string) time.Duration {
	b.Helper()
	var took samples
	for range 100 {
		begin := time.Now()
		if err := exec.Command(path, "-c", ":").Run(); err != nil {
			b.Fatal(err)
		}
		took.add(begin)
	}
	return took.median()
}

func BenchmarkOneShot(b *testing.B) {
	eachWay(b, func(b *testing.B, f *bench) {
		bare := spawnFloor(b, f.family.cfg.Path)
		var took samples
		for range b.N {
			begin := time.Now()
			k, err := f.family.Start(context.Background(), kernel.OneShot, "bench")
			if err != nil {
				b.Fatal(err)
			}
			if _, err := k.Run(context.Background(), kernel.Program{Number: 1, Code: "echo x", Tap: nowhere{}}); err != nil {
				b.Fatal(err)
			}
			k.Kill()
			took.add(begin)
		}
		took.against(b, bare)
	})
}

func BenchmarkCopy(b *testing.B) {
	eachWay(b, func(b *testing.B, f *bench) {
		bare := spawnFloor(b, f.family.cfg.Path)
		s := f.session()
		s.want("x=1", "", 0)
		var took samples
		for range b.N {
			begin := time.Now()
			k, _, err := s.k.Fork(context.Background(), kernel.Copy, "bench")
			if err != nil {
				b.Fatal(err)
			}
			if _, err := k.Run(context.Background(), kernel.Program{Number: 1, Code: "echo $x", Tap: nowhere{}}); err != nil {
				b.Fatal(err)
			}
			k.Kill()
			took.add(begin)
		}
		took.against(b, bare)
	})
}

func BenchmarkSessionStart(b *testing.B) {
	eachWay(b, func(b *testing.B, f *bench) {
		bare := spawnFloor(b, f.family.cfg.Path)
		var took samples
		for range b.N {
			begin := time.Now()
			k, err := f.family.makeSession(context.Background())
			if err != nil {
				b.Fatal(err)
			}
			k.Kill()
			took.add(begin)
		}
		took.against(b, bare)
	})
}

func BenchmarkOutput(b *testing.B) {
	eachWay(b, func(b *testing.B, f *bench) {
		s := f.session()
		const size = 8 << 20
		b.SetBytes(size)
		p := kernel.Program{Number: 1, Code: fmt.Sprintf("head -c %d /dev/zero", size), Tap: nowhere{}}
		for range b.N {
			if _, err := s.k.Run(context.Background(), p); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkPrimitive is a use of a primitive that is answered at once, against the
// start of a command that does nothing, in the same shell.
func BenchmarkPrimitive(b *testing.B) {
	for _, w := range append(ways, way{"sh-built", surfaces.Sh, true}) {
		b.Run(w.name, func(b *testing.B) {
			f := open(b, w)
			s := f.session()
			answer := func(e kernel.Event) {
				if err := s.k.Tell(kernel.Message{Kind: kernel.MessagePrimitive, ID: e.ID, Data: json.RawMessage(`{"result": 1}`)}); err != nil {
					b.Error(err)
				}
			}
			round := func(code string) time.Duration {
				begin := time.Now()
				if _, err := s.k.Run(context.Background(), kernel.Program{Number: 1, Code: code, Tap: nowhere{}, Events: answer}); err != nil {
					b.Fatal(err)
				}
				return time.Since(begin)
			}
			var bare, took samples
			for range b.N {
				bare = append(bare, round("command -p id -u"))
				took = append(took, round("primitives say.one '{}'"))
			}
			took.against(b, bare.median())
		})
	}
}
