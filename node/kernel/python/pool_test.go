package python

import (
	"os"
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

// TestPoolRests sees the warm kernels of an actor that does nothing end, and come
// back with its first call.
func TestPoolRests(t *testing.T) {
	workspace := t.TempDir()
	c, err := sandbox.Open(t.Context(), sandbox.Config{Name: "test", Workspace: workspace})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
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
	defer f.Close()
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
