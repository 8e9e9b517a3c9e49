package engine_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/locusrun/locus/node/engine"
	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/kernel/python"
	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/surfaces"
)

func TestMain(m *testing.M) {
	sandbox.RunKeeperIfAsked()
	os.Exit(m.Run())
}

// pythons starts all kernels in one real process family.
type pythons struct{ family *python.Family }

func (p pythons) Start(ctx context.Context, w engine.Want) (kernel.Kernel, error) {
	return p.family.Start(ctx, w.Kind, w.Name)
}

func realEngine(b *testing.B) (e *engine.Engine, interpreter string) {
	b.Helper()
	ctx := b.Context()
	interpreter, err := python.Locate(ctx)
	if err != nil {
		b.Skip("this machine has no Python: ", err)
	}
	workspace := b.TempDir()
	c, err := sandbox.Open(ctx, sandbox.Config{Name: "bench", Workspace: workspace})
	if err != nil {
		b.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	f, err := python.NewFamily(ctx, python.Config{
		Container: c, Interpreter: interpreter, Workspace: workspace, Env: sandbox.Environment(workspace), Log: log,
	})
	if err != nil {
		b.Fatal(err)
	}
	e = engine.New(engine.Config{Node: "n", Kernels: pythons{f}, Log: log})
	b.Cleanup(func() {
		e.Close()
		if err := f.Close(); err != nil {
			b.Error(err)
		}
		if err := c.Close(); err != nil {
			b.Error(err)
		}
	})
	return e, interpreter
}

const evalLoop = `
import sys
x = 1
for line in sys.stdin:
    sys.stdout.write(repr(eval(compile(line, "<floor>", "eval"))) + "\n"); sys.stdout.flush()
`

func median(n int, f func()) time.Duration {
	took := make([]time.Duration, n)
	for i := range took {
		began := time.Now()
		f()
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return took[n/2]
}

// BenchmarkStateful compares x+1 in a session with a bare pipe round trip to a
// resident interpreter that compiles and evaluates it.
func BenchmarkStateful(b *testing.B) {
	e, interpreter := realEngine(b)
	call := surfaces.Call{Actor: "a", Request: surfaces.Request{
		Code: "x = 1", Language: surfaces.Python, StateMode: surfaces.Stateful, Surface: surfaces.Local, Timeout: time.Minute,
	}, Session: &surfaces.SessionRef{Key: surfaces.SessionKey{Actor: "a", Language: surfaces.Python, ID: 1}, Epoch: 1}}
	run := func() {
		out := e.Execute(b.Context(), surfaces.Attempt{Call: call, CallID: "c", Actor: "a", Number: 1})
		if out.Result.Error != nil {
			b.Fatal(*out.Result.Error)
		}
	}
	run()
	call.Code = "x+1"

	cmd := exec.Command(interpreter, "-u", "-c", evalLoop)
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
	defer func() { in.Close(); cmd.Wait() }()
	answers := bufio.NewReader(out)
	ask := func() {
		io.WriteString(in, "x+1\n")
		if _, err := answers.ReadString('\n'); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		median(200, ask)
		bare := median(2000, ask)
		median(200, run)
		ours := median(2000, run)
		b.ReportMetric(float64(bare.Nanoseconds())/1e3, "pipe-us")
		b.ReportMetric(float64(ours.Nanoseconds())/1e3, "engine-us")
		b.ReportMetric(float64(ours)/float64(bare), "engine/pipe")
	}
}
