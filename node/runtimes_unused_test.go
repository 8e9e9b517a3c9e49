package node

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/locusrun/locus/node/engine"
	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/surfaces"
)

// fakeFamily makes kernels that are nothing but counted.
type fakeFamily struct {
	done chan struct{}
	once sync.Once

	mu     sync.Mutex
	out    int // kernels that were given out
	harmed bool
	warm   atomic.Bool

	starting func() // called by Start; may be nil
}

var errPaperClosed = errors.New("a closed family was asked for a kernel")

func (f *fakeFamily) Start(context.Context, kernel.Kind, string) (kernel.Kernel, error) {
	time.Sleep(20 * time.Microsecond) // the start of a process
	if f.starting != nil {
		f.starting()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !alive(f.done) {
		return nil, errPaperClosed
	}
	f.out++
	return &fakeKernel{f: f}, nil
}

func (f *fakeFamily) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.harmed = f.harmed || f.out > 0
	f.once.Do(func() { close(f.done) })
	return nil
}

func (f *fakeFamily) Done() <-chan struct{} { return f.done }
func (f *fakeFamily) Warm(on bool)          { f.warm.Store(on) }
func (f *fakeFamily) Used() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out > 0
}

type fakeKernel struct {
	kernel.Kernel
	f *fakeFamily
}

func (k *fakeKernel) Kill() {
	k.f.mu.Lock()
	defer k.f.mu.Unlock()
	k.f.out--
}

// fakeEnvironment counts what is held of it.
type fakeEnvironment struct{ held *atomic.Int64 }

func (fakeEnvironment) Interpreter() string { return "" }
func (e fakeEnvironment) Release()          { e.held.Add(-1) }

// fakeRuntimes returns runtimes with real containers and fake families.
func fakeRuntimes(t *testing.T) (h *runtimes, made func() []*fakeFamily, held *atomic.Int64) {
	t.Helper()
	h = &runtimes{
		cfg: Config{DataDir: t.TempDir()}, log: slog.New(slog.DiscardHandler), actors: map[string]*actorRuntime{},
	}
	var mu sync.Mutex
	var families []*fakeFamily
	h.make = func(context.Context, *sandbox.Container, string, familyKey, environment) (family, error) {
		f := &fakeFamily{done: make(chan struct{})}
		f.warm.Store(true)
		mu.Lock()
		defer mu.Unlock()
		families = append(families, f)
		return f, nil
	}
	held = new(atomic.Int64)
	h.environment = func(context.Context, int, func(string)) (environment, error) {
		held.Add(1)
		return fakeEnvironment{held}, nil
	}
	t.Cleanup(h.close)
	return h, func() []*fakeFamily {
		mu.Lock()
		defer mu.Unlock()
		return families
	}, held
}

func wantIn(venv int) engine.Want {
	return engine.Want{Key: surfaces.SessionKey{Actor: "a", Language: surfaces.Python, Venv: venv}, Kind: kernel.Session}
}

// A family none of whose kernels is in use is closed and releases its environment. It is
// started again on demand. A container is closed after it has been empty.
func TestUnusedFamiliesAreClosed(t *testing.T) {
	h, made, held := fakeRuntimes(t)
	k, err := h.Start(t.Context(), wantIn(1))
	if err != nil {
		t.Fatal(err)
	}
	if n := h.closeUnused(0, 0); n != 0 || held.Load() != 1 {
		t.Fatalf("%d families were closed while a kernel was in use; %d environments are held", n, held.Load())
	}
	k.Kill()
	if n := h.closeUnused(time.Hour, 0); n != 0 {
		t.Fatal("it was closed before its time")
	}
	container := h.getOrCreate("a").container
	if n := h.closeUnused(0, time.Hour); n != 1 || held.Load() != 0 || alive(made()[0].done) {
		t.Fatalf("%d families were closed; %d environments are held", n, held.Load())
	}
	if h.closeUnused(0, time.Hour); !alive(container.Done()) {
		t.Fatal("the container was closed before its time")
	}
	if h.closeUnused(0, 0); alive(container.Done()) || h.getOrCreate("a").container != nil {
		t.Fatal("the empty container was not closed")
	}
	if h.enforced("a") == nil {
		t.Error("what isolation holds is not known any more")
	}
	k, err = h.Start(t.Context(), wantIn(1))
	if err != nil || len(made()) != 2 || held.Load() != 1 {
		t.Fatalf("made again: %v; %d families, %d environments are held", err, len(made()), held.Load())
	}
	k.Kill()
}

// However starts and closing are interleaved, no start fails, and no family with a running
// kernel is closed.
func TestAFamilyIsNotClosedDuringAStart(t *testing.T) {
	h, made, held := fakeRuntimes(t)
	stop := make(chan struct{})
	var closers, starters sync.WaitGroup
	for range 2 {
		closers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					h.closeUnused(0, time.Hour)
				}
			}
		})
	}
	for i := range 8 {
		starters.Go(func() {
			for range 300 {
				k, err := h.Start(t.Context(), wantIn(i%3))
				if err != nil {
					t.Error(err)
					return
				}
				k.Kill()
			}
		})
	}
	starters.Wait()
	close(stop)
	closers.Wait()
	h.closeUnused(0, time.Hour)
	if len(made()) < 10 {
		t.Errorf("%d families were made: the test has tried little", len(made()))
	}
	for _, f := range made() {
		if f.harmed || alive(f.done) {
			t.Fatal("a family was closed under a kernel, or not at all")
		}
	}
	if held.Load() != 0 {
		t.Fatalf("%d environments are held", held.Load())
	}
}

// While memory is short no family starts kernels ahead of their use, new families included.
func TestFamiliesGoColdAndWarm(t *testing.T) {
	h, made, _ := fakeRuntimes(t)
	start := func(venv int) {
		t.Helper()
		k, err := h.Start(t.Context(), wantIn(venv))
		if err != nil {
			t.Fatal(err)
		}
		k.Kill()
	}
	start(0)
	h.setPrewarm(false)
	start(1)
	for i, f := range made() {
		if f.warm.Load() {
			t.Errorf("family %d is warm", i)
		}
	}
	h.setPrewarm(true)
	start(2)
	for i, f := range made() {
		if !f.warm.Load() {
			t.Errorf("family %d is cold", i)
		}
	}
}
