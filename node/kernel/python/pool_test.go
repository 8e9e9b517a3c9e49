package python

import (
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/sandbox"
)

// eventuallyWarm waits until that many kernels are warm and none is being made.
func eventuallyWarm(t *testing.T, p *pool, want int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		p.mu.Lock()
		have, making := len(p.idle), p.making
		p.mu.Unlock()
		if have == want && making == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d kernels are warm and %d being made; want %d", have, making, want)
		}
		time.Sleep(2 * time.Millisecond) // a poll of something that sends no signal
	}
}

// counter counts the bytes of a call's output.
type counter struct{ bytes atomic.Int64 }

func (c *counter) Output(_ kernel.Stream, p []byte) { c.bytes.Add(int64(len(p))) }

func newTestFamily(t *testing.T) *Family {
	t.Helper()
	workspace := t.TempDir()
	c, err := sandbox.Open(t.Context(), sandbox.Config{Name: "test", Workspace: workspace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	path := os.Getenv("LOCUS_TEST_PYTHON")
	if path == "" {
		if path, err = Locate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	f, err := NewFamily(t.Context(), Config{Container: c, Interpreter: path, Workspace: workspace, Env: sandbox.Environment(workspace)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// TestColdKernelRuns has a kernel that was not warmed up do what any other does.
func TestColdKernelRuns(t *testing.T) {
	f := newTestFamily(t)
	k, err := f.spawn(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Kill()
	k.kind = kernel.Session
	for i := range 3 {
		var out counter
		report, err := k.Run(t.Context(), kernel.Program{
			Number: i + 1, Code: "import os\nos.write(1, b'four') and print('five!')\n[1, 2]", Tap: &out, Diff: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		if string(report.Result) != "[1,2]" || report.ResultType != "list" || report.Exception != nil || out.bytes.Load() != 10 {
			t.Errorf("call %d: result %s %s, exception %v, %d bytes of output", i, report.Result, report.ResultType, report.Exception, out.bytes.Load())
		}
		if report.Diff == nil || (len(report.Diff.Added) == 1) != (i == 0) {
			t.Errorf("call %d: the diff is %+v", i, report.Diff)
		}
	}
	k.Kill()
	select {
	case <-k.Process().Done():
	default:
		t.Error("a killed kernel lives")
	}
	if pids, err := k.Group().Pids(); err != nil || len(pids) != 0 {
		t.Errorf("a killed kernel's group holds %v, %v", pids, err)
	}
}

// TestPoolDiscardsIdleKernels sees the warm kernels of an actor that does nothing end, and come
// back with its first call.
func TestPoolDiscardsIdleKernels(t *testing.T) {
	f := newTestFamily(t)
	p := f.pool
	p.pause.Stop() // the test says when the pool rests
	eventuallyWarm(t, p, poolMin)
	p.mu.Lock()
	warm := append([]*Kernel(nil), p.idle...)
	p.mu.Unlock()

	p.rest()
	eventuallyWarm(t, p, poolResting)
	alive := 0
	for _, k := range warm {
		select {
		case <-k.Process().Done():
		default:
			alive++
		}
	}
	if alive != poolResting {
		t.Errorf("%d of the warm kernels live on after a rest, want %d", alive, poolResting)
	}

	k, err := f.Start(t.Context(), kernel.OneShot, "first")
	if err != nil {
		t.Fatal(err)
	}
	defer k.Kill()
	p.pause.Stop()
	eventuallyWarm(t, p, poolMin)

	// Taking them faster than they are made brings more.
	for range 2 * poolMin {
		k, err := f.Start(t.Context(), kernel.OneShot, "more")
		if err != nil {
			t.Fatal(err)
		}
		defer k.Kill()
	}
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	if target > poolMax {
		t.Errorf("%d kernels are to be warm, more than %d", target, poolMax)
	}
}

// eventuallyUsed waits until the family says so.
func eventuallyUsed(t *testing.T, f *Family, want bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); f.Used() != want; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("used is %v, want %v", !want, want)
		}
	}
}

// What is given out, or copied, is in use until it is gone; what is only warm is not.
func TestFamilyIsUsed(t *testing.T) {
	f := newTestFamily(t)
	eventuallyWarm(t, f.pool, poolMin)
	eventuallyUsed(t, f, false)
	k, err := f.Start(t.Context(), kernel.Session, "session")
	if err != nil {
		t.Fatal(err)
	}
	defer k.Kill()
	c, _, err := k.Fork(t.Context(), kernel.Copy, "copy")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Kill()
	eventuallyWarm(t, f.pool, poolMin)
	if !f.Used() {
		t.Error("a session is not seen")
	}
	k.Kill()
	if !f.Used() {
		t.Error("a copy that outlives its session is not seen")
	}
	c.Kill()
	eventuallyUsed(t, f, false)
}

// A cold family has no kernels but those in use, makes them as they are asked for, and
// is warm again with its first kernel after it may be.
func TestColdPoolKeepsNoSpareKernels(t *testing.T) {
	f := newTestFamily(t)
	eventuallyWarm(t, f.pool, poolMin)
	f.Warm(false)
	eventuallyWarm(t, f.pool, 0)
	eventuallyUsed(t, f, false)
	for range 2 {
		k, err := f.Start(t.Context(), kernel.OneShot, "once")
		if err != nil {
			t.Fatal(err)
		}
		defer k.Kill()
	}
	eventuallyWarm(t, f.pool, 0)
	f.Warm(true)
	k, err := f.Start(t.Context(), kernel.OneShot, "once")
	if err != nil {
		t.Fatal(err)
	}
	defer k.Kill()
	f.pool.pause.Stop()
	f.pool.mu.Lock()
	target := f.pool.target
	f.pool.mu.Unlock()
	eventuallyWarm(t, f.pool, target)
}
