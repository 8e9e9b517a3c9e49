package shell

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/kernel/shell/command"
	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/surfaces"
)

// Config configures the kernels of a family.
type Config struct {
	// Container is where the kernels run.
	Container *sandbox.Container
	// Language and Path are a shell's language and program, as Locate found them.
	Language surfaces.Language
	Path     string
	// Workspace is the initial working directory.
	Workspace string
	// Scratch is a directory below the workspace, made if missing. The family keeps its
	// pipes and the command "primitives" in its own directories there.
	Scratch string
	// Env is the environment. Variables that make a shell read start-up files are
	// removed.
	Env []string
	// Limits bounds each kernel together with all processes that it starts.
	Limits sandbox.Limits
	// CacheDir is the node's own directory for compiled programs. If it is empty,
	// nothing is compiled.
	CacheDir string
	// NoBuild turns compiling off, as on a machine without a C compiler: bash runs
	// without the loadable builtin, and this very program serves as the command
	// "primitives". See command.RunIfAsked.
	NoBuild bool
	// Log may be nil.
	Log *slog.Logger
}

// Family makes the kernels of one shell for one actor.
type Family struct {
	cfg     Config
	dialect *dialect
	log     *slog.Logger
	dir     string
	tag     string
	number  atomic.Uint64

	once    pool[*oneshot]
	fresh   pool[sessionKernel]
	builtin string // the path of bash's loadable builtin, or empty
	preload string // the path of the library that isolates copies of sh and zsh, or empty
	door    *command.Door

	mu     sync.Mutex
	closed bool
	done   chan struct{}
	alive  map[kernel.Kernel]struct{}
	work   sync.WaitGroup
}

var _ kernel.Family = (*Family)(nil)

// ErrClosed is the error of a closed family.
var ErrClosed = errors.New("shell: the family was closed")

// NewFamily makes a family with its first session.
func NewFamily(ctx context.Context, cfg Config) (*Family, error) {
	d, err := dialectOf(cfg.Language)
	if err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	raw := make([]byte, 8)
	_, _ = rand.Read(raw) // crypto/rand never fails
	f := &Family{
		cfg: cfg, dialect: d, tag: hex.EncodeToString(raw),
		log:   cfg.Log.With("language", string(cfg.Language)),
		done:  make(chan struct{}),
		alive: make(map[kernel.Kernel]struct{}),
	}
	f.dir = filepath.Join(cfg.Scratch, f.tag)
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return nil, fmt.Errorf("shell: make the directory of pipes: %w", err)
	}
	if err := f.openDoor(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(f.dir))
	}
	f.cfg.Env = environment(cfg.Env, f.door.Path())
	f.once = pool[*oneshot]{family: f, size: 2, make: f.makeOneshot}
	f.fresh = pool[sessionKernel]{family: f, size: 1, make: f.makeSessionKernel}
	// Making the first session now shows whether the shell works.
	first, err := f.first(ctx)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	f.fresh.give(first)
	f.once.refill()
	return f, nil
}

// openDoor makes the directory of the command "primitives". Its path is the same for the
// life of an actor, so that a PATH which code has saved stays valid.
func (f *Family) openDoor(ctx context.Context) error {
	scratch, err := filepath.Rel(f.cfg.Workspace, f.cfg.Scratch)
	if err != nil || !filepath.IsLocal(scratch) {
		return fmt.Errorf("shell: the scratch directory %q is not below the workspace %q", f.cfg.Scratch, f.cfg.Workspace)
	}
	program := ""
	if !f.cfg.NoBuild {
		if program, err = client.build(ctx, f.cfg.CacheDir); ctx.Err() != nil {
			return cancelled(ctx)
		}
		if err != nil {
			f.log.Info("the command primitives cannot be compiled and will start more slowly", "reason", err)
		}
	}
	f.door, err = command.Open(command.Config{
		Workspace: f.cfg.Workspace, Dir: filepath.Join(scratch, f.dialect.name), Program: program, Log: f.log,
	})
	if err != nil {
		return fmt.Errorf("shell: %w", err)
	}
	return nil
}

// admit lets a program use primitives, whose requests become events. Without events it
// may not use any.
func (f *Family) admit(events func(kernel.Event)) *command.Caller {
	if events == nil {
		return f.door.Admit(nil)
	}
	return f.door.Admit(func(q command.Question) {
		events(kernel.Event{Kind: kernel.EventPrimitive, ID: q.ID, Name: q.Name, Data: q.Data})
	})
}

// sessionKernel is a kernel that can serve as a session: a session or a resident.
type sessionKernel interface {
	kernel.Kernel
	called(name string)
}

// first makes the first session. It decides whether the family uses a compiled part, the
// loadable builtin of bash or the library for sh and zsh: only if that can be built and
// works.
func (f *Family) first(ctx context.Context) (sessionKernel, error) {
	if f.cfg.NoBuild {
		return f.makeSession(ctx)
	}
	with := f.firstPreloaded
	if f.cfg.Language == surfaces.Bash {
		with = f.firstResident
	}
	k, err := with(ctx)
	if err == nil {
		return k, nil
	}
	if ctx.Err() != nil {
		return nil, cancelled(ctx)
	}
	f.log.Info("a shell runs without its compiled part", "reason", err)
	return f.makeSession(ctx)
}

func (f *Family) firstResident(ctx context.Context) (sessionKernel, error) {
	builtin, err := loadable.build(ctx, f.cfg.CacheDir)
	if err != nil {
		return nil, err
	}
	r, err := f.makeResident(ctx, builtin)
	if err != nil {
		return nil, err
	}
	if err := r.selfTest(ctx); err != nil {
		r.Kill()
		return nil, err
	}
	f.builtin = builtin
	return r, nil
}

func (f *Family) firstPreloaded(ctx context.Context) (sessionKernel, error) {
	library, err := preload.build(ctx, f.cfg.CacheDir)
	if err != nil {
		return nil, err
	}
	f.preload = library
	ctx, cancel := context.WithTimeout(ctx, selfTestLimit)
	defer cancel()
	s, err := f.makeSession(ctx)
	if err == nil {
		if err = s.selfTest(ctx); err == nil {
			return s, nil
		}
		s.Kill()
	}
	f.preload = ""
	return nil, err
}

// selfTestLimit bounds the start and the test of a shell with the preloaded library: a copy
// that the library has cut off from its pipes says nothing.
const selfTestLimit = 10 * time.Second

// spawnRoot starts the root of a session, with the preloaded library if there is one.
func (f *Family) spawnRoot(ctx context.Context, name, dir string) (*sandbox.Process, sandbox.Group, error) {
	command := sandbox.Command{Args: f.dialect.argv(dir), Env: f.cfg.Env}
	if f.preload != "" {
		library, err := os.Open(f.preload)
		if err != nil {
			return nil, nil, fmt.Errorf("shell: start a shell: %w", err)
		}
		defer library.Close()
		// The library's path is hidden in the container. It closes its descriptor.
		command.Files = []*os.File{nil, nil, nil, library}
		command.Env = append(slices.Clip(f.cfg.Env), "LD_PRELOAD=/proc/self/fd/3", "__locus_isolation="+f.dir+"/\n"+f.folders())
	}
	return f.spawn(ctx, name, command)
}

// cancelled is the error of a start whose context ended before it was known whether the
// compiled part works. Falling back then would be wrong, since a family keeps its
// choice for good; the next start tries again.
func cancelled(ctx context.Context) error {
	return fmt.Errorf("shell: the start was cancelled: %w", context.Cause(ctx))
}

func (f *Family) makeSessionKernel(ctx context.Context) (sessionKernel, error) {
	if f.builtin != "" {
		return f.makeResident(ctx, f.builtin)
	}
	return f.makeSession(ctx)
}

// Start implements kernel.Family. A Copy is made by its session's Fork.
func (f *Family) Start(ctx context.Context, kind kernel.Kind, name string) (kernel.Kernel, error) {
	switch kind {
	case kernel.OneShot:
		k, err := f.once.take(ctx)
		if err != nil {
			return nil, err
		}
		k.log = f.log.With("kernel", name)
		return k, nil
	case kernel.Session:
		k, err := f.fresh.take(ctx)
		if err != nil {
			return nil, err
		}
		k.called(name)
		return k, nil
	}
	return nil, fmt.Errorf("shell: a family cannot start a kernel of kind %d", kind)
}

// Done is closed by Close. A family has no process of its own that could end earlier.
func (f *Family) Done() <-chan struct{} { return f.done }

// Close implements kernel.Family.
func (f *Family) Close() error {
	f.mu.Lock()
	if !f.closed {
		f.closed = true
		close(f.done)
	}
	alive := make([]kernel.Kernel, 0, len(f.alive))
	for k := range f.alive {
		alive = append(alive, k)
	}
	f.mu.Unlock()
	var all sync.WaitGroup
	for _, k := range alive {
		all.Go(k.Kill)
	}
	all.Wait()
	f.work.Wait()
	return errors.Join(f.door.Close(), os.RemoveAll(f.dir))
}

// keep registers a kernel. If the family is closed, it kills the kernel and returns
// ErrClosed.
func (f *Family) keep(k kernel.Kernel) error {
	f.mu.Lock()
	closed := f.closed
	if !closed {
		f.alive[k] = struct{}{}
	}
	f.mu.Unlock()
	if closed {
		k.Kill()
		return ErrClosed
	}
	return nil
}

func (f *Family) forget(k kernel.Kernel) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.alive, k)
}

// background starts a goroutine that Close waits for. It returns false if the family is
// closed.
func (f *Family) background(work func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.work.Go(work)
	return true
}

// place returns unique names for a new kernel's directory and group.
func (f *Family) place() (dir, name string) {
	n := strconv.FormatUint(f.number.Add(1), 10)
	return filepath.Join(f.dir, n), string(f.cfg.Language) + "-" + f.tag + "-" + n
}

// spawn starts the shell in a new group.
func (f *Family) spawn(ctx context.Context, name string, command sandbox.Command) (*sandbox.Process, sandbox.Group, error) {
	group, err := f.cfg.Container.NewGroup(name, f.cfg.Limits)
	if err != nil {
		return nil, nil, fmt.Errorf("shell: make a group: %w", err)
	}
	command.Path, command.Dir, command.Group = f.cfg.Path, f.cfg.Workspace, group
	proc, err := f.cfg.Container.Spawn(ctx, command)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("shell: start a shell: %w", err), group.Close())
	}
	return proc, group, nil
}
