package python

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/sandbox"
)

// Config says what kernels a Family makes.
type Config struct {
	// Container is where the kernels run. The Family does not close it.
	Container *sandbox.Container
	// Interpreter is the path of the Python executable; see Locate and Resolve.
	Interpreter string
	// Workspace is the directory in which programs start and from which they import.
	Workspace string
	// Env is the environment of every kernel.
	Env []string
	// Limits bounds each kernel together with all processes that it starts.
	Limits sandbox.Limits
	// Folders are those that read-only copies may write to, each in a private overlay.
	// Nil means the workspace, /tmp, /var/tmp and /dev/shm.
	Folders []string
	// NoConfinement turns off Landlock and the seccomp filter for copies, as on a
	// machine that has neither.
	NoConfinement bool
	// Log may be nil.
	Log *slog.Logger
}

// startLimit bounds the start of a zygote or a kernel, in addition to the caller's
// context.
const startLimit = 30 * time.Second

// Family makes the Python kernels of one actor in one environment. It implements
// kernel.Family.
type Family struct {
	cfg     Config
	log     *slog.Logger
	zygote  *sandbox.Process
	group   sandbox.Group
	control *requester
	pool    *pool
	holder  holders
	// confines is true if Landlock and seccomp keep copies from other processes.
	confines bool
	number   atomic.Uint64
	// view is the method of mounting overlays that worked last; see mounts.py.
	view atomic.Int64

	mu      sync.Mutex
	closed  bool
	kernels map[*Kernel]struct{}
	// work counts the family's goroutines.
	work sync.WaitGroup
}

var _ kernel.Family = (*Family)(nil)

// ErrClosed is the error of Start on a closed Family.
var ErrClosed = errors.New("the kernels of this environment were closed")

// NewFamily starts a zygote and returns when it is ready.
func NewFamily(ctx context.Context, cfg Config) (*Family, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Folders == nil {
		cfg.Folders = []string{cfg.Workspace, "/tmp", "/var/tmp", "/dev/shm"}
	}
	f := &Family{cfg: cfg, log: cfg.Log, kernels: make(map[*Kernel]struct{})}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := f.startZygote(ctx); err != nil {
		return nil, err
	}
	f.pool = newPool(f)
	f.pool.refill()
	f.holder.family = f
	if !f.confines {
		f.holder.refill()
	}
	return f, nil
}

func (f *Family) startZygote(ctx context.Context) error {
	group, err := f.cfg.Container.NewGroup("python-zygote", sandbox.Limits{})
	if err != nil {
		return fmt.Errorf("start the zygote: %w", err)
	}
	modules, boot, err := bundle()
	if err != nil {
		group.Close()
		return err
	}
	defer modules.Close()
	defer boot.Close()
	control, peer, err := newLink(nil)
	if err != nil {
		group.Close()
		return err
	}
	defer peer.Close()
	logR, logW, err := os.Pipe()
	if err != nil {
		control.close()
		group.Close()
		return fmt.Errorf("start the zygote: %w", err)
	}
	zygote, err := f.cfg.Container.Spawn(ctx, sandbox.Command{
		Path:  f.cfg.Interpreter,
		Args:  []string{f.cfg.Interpreter, "-X", "utf8", "-c", bootCommand},
		Env:   environment(f.cfg.Env),
		Dir:   f.cfg.Workspace,
		Files: []*os.File{nil, logW, logW, peer, modules, boot},
		Group: group,
	})
	// The log's reader sees end-of-file only if the zygote alone holds the write end.
	logW.Close()
	if err != nil {
		control.close()
		logR.Close()
		group.Close()
		return fmt.Errorf("start the zygote: %w", err)
	}
	f.zygote, f.group, f.control = zygote, group, newRequester(control)
	output := &zygoteLog{log: f.log}
	f.work.Go(func() { output.read(logR) })
	f.work.Go(func() { <-zygote.Done(); control.end() })
	hello, err := f.control.hello(ctx)
	if err != nil {
		f.stopZygote()
		f.work.Wait()
		return fmt.Errorf("start the zygote %s: %w: %s", f.cfg.Interpreter, err, output.text())
	}
	f.confines = hello.Confines && !f.cfg.NoConfinement
	return nil
}

func (f *Family) stopZygote() {
	f.control.link.close()
	if err := f.group.Close(); err != nil {
		f.log.Warn("the zygote's group did not end", "error", err)
	}
	<-f.zygote.Done()
}

// environment adds the variables that kernels need, unless the environment sets them.
func environment(env []string) []string {
	env = slices.Clone(env)
	for _, def := range []string{
		// Figures are collected, not shown in a window.
		"MPLBACKEND=Agg",
		// Forking a big heap is 5 to 20 times cheaper if it is in huge pages.
		"GLIBC_TUNABLES=glibc.malloc.hugetlb=1",
	} {
		name, _, _ := strings.Cut(def, "=")
		if !slices.ContainsFunc(env, func(s string) bool { return strings.HasPrefix(s, name+"=") }) {
			env = append(env, def)
		}
	}
	return env
}

// Done is closed when the zygote has ended. Existing kernels continue, but no new
// kernel can be started.
func (f *Family) Done() <-chan struct{} { return f.zygote.Done() }

// Start returns a kernel, a warm one if the pool has one. The kind must be OneShot or
// Session: a Copy is made by its session's Fork.
func (f *Family) Start(ctx context.Context, kind kernel.Kind, name string) (kernel.Kernel, error) {
	if kind == kernel.Copy {
		return nil, errors.New("a copy is made by the Fork of a session")
	}
	k, err := f.pool.take(ctx)
	if err != nil {
		return nil, err
	}
	resume(k.process)
	k.name, k.kind = name, kind
	return k, nil
}

// Close kills every kernel and the zygote, and waits until they have ended.
func (f *Family) Close() error {
	f.mu.Lock()
	f.closed = true
	kernels := make([]*Kernel, 0, len(f.kernels))
	for k := range f.kernels {
		kernels = append(kernels, k)
	}
	f.mu.Unlock()
	f.pool.close()
	var kills sync.WaitGroup
	for _, k := range kernels {
		kills.Go(k.Kill)
	}
	kills.Wait()
	f.holder.close()
	f.stopZygote()
	f.work.Wait()
	return nil
}

// enter registers a kernel. On an error the caller must kill it.
func (f *Family) enter(k *Kernel) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return ErrClosed
	}
	f.kernels[k] = struct{}{}
	return nil
}

func (f *Family) leave(k *Kernel) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.kernels, k)
}

// begin starts a goroutine that Close waits for. It returns false if the family is
// closed.
func (f *Family) begin(work func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.work.Go(work)
	return true
}
