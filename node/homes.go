package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/locusrun/locus/node/engine"
	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/kernel/python"
	"github.com/locusrun/locus/node/kernel/shell"
	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/surfaces"
)

// homes keeps what each actor's code runs in: one container with its workspace,
// and in it one family of kernels for each language and environment. It makes
// them when they are first asked for, and again when they died.
type homes struct {
	cfg    Config
	log    *slog.Logger
	shells map[surfaces.Language]string
	python func() (string, error) // waits until the interpreter is found
	// environment makes a stored environment ready, building it when it is not there.
	environment func(ctx context.Context, id int, say func(line string)) (environment, error)
	// make starts a family.
	make  func(ctx context.Context, c *sandbox.Container, actor string, p place, in environment) (family, error)
	lean  atomic.Bool // no kernels are made ahead of their use
	leash *sandbox.Leash

	mu     sync.Mutex
	actors map[string]*home
	closed bool
}

type home struct {
	mu        sync.Mutex // held while something is being made
	container *sandbox.Container
	enforced  *sandbox.Enforced // by the last container; nil before the first one
	families  map[place]*housed
	used      time.Time // when something was last seen in the container
	ended     bool
}

type place struct {
	language surfaces.Language
	venv     int
}

// family is a kernel family whose death can be seen.
type family interface {
	kernel.Family
	Done() <-chan struct{}
	// Warm says whether kernels may be made ahead of their use.
	Warm(on bool)
	// Used reports whether a kernel that was given out is there still.
	Used() bool
}

// environment is a built environment that is not removed until it is let go.
type environment interface {
	// Interpreter is the path of its own Python.
	Interpreter() string
	Release()
}

// housed is a family in a home, with the environment that it runs in, if any.
type housed struct {
	family
	in environment

	home   *home // guards what follows
	starts int   // that are under way
	used   time.Time
}

// Close closes the family and lets go of its environment.
func (f *housed) Close() error {
	if f.in != nil {
		defer f.in.Release()
	}
	return f.family.Close()
}

// release ends what living or ready began.
func (f *housed) release() {
	f.home.mu.Lock()
	defer f.home.mu.Unlock()
	f.starts--
	f.used = time.Now()
}

func newHomes(cfg Config) (*homes, error) {
	leash, err := sandbox.NewLeash()
	if err != nil {
		return nil, err
	}
	h := &homes{cfg: cfg, log: cfg.Log, shells: shell.Locate(), leash: leash, actors: make(map[string]*home)}
	h.make = h.family
	found := make(chan struct{})
	var path string
	var lack error
	go func() {
		defer close(found)
		if path = cfg.Interpreter; path != "" {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), findLimit)
		defer cancel()
		path, lack = python.Locate(ctx)
	}()
	h.python = func() (string, error) { <-found; return path, lack }
	return h, nil
}

// languages lists what this machine can run, in the contract's order.
func (h *homes) languages() []surfaces.Language {
	var list []surfaces.Language
	for _, l := range surfaces.Languages() {
		if l == surfaces.Python {
			if _, err := h.python(); err != nil {
				continue
			}
		} else if h.shells[l] == "" {
			continue
		}
		list = append(list, l)
	}
	return list
}

const (
	// startTries is how often a kernel is started while what it is to run in dies.
	startTries = 3
	// deathNotice bounds how long a death may take to be seen after a start failed.
	deathNotice = time.Second
)

// startLimit bounds how long a kernel may take to start, once its environment is
// there.
const startLimit = 30 * time.Second

// Start gives a kernel for an actor's code. A container or a family that dies
// under the start is made anew and the kernel started there: no code has run.
func (h *homes) Start(ctx context.Context, w engine.Want) (kernel.Kernel, error) {
	for try := 1; ; try++ {
		k, f, err := h.start(ctx, w)
		if err == nil {
			return k, nil
		}
		var failed *engine.StartError
		if try == startTries || errors.As(err, &failed) || !h.died(ctx, w.Key.Actor, f) {
			return nil, err
		}
	}
}

// start gives a kernel, and the family that was to make it.
func (h *homes) start(ctx context.Context, w engine.Want) (kernel.Kernel, *housed, error) {
	p := place{w.Key.Language, w.Key.Venv}
	f := h.living(w.Key.Actor, p)
	var in environment
	if f == nil && p.venv != 0 {
		// Nobody else of the actor's waits while it is built.
		var err error
		if in, err = h.environment(ctx, p.venv, w.Say); err != nil {
			return nil, nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if f == nil {
		var err error
		if f, err = h.ready(ctx, w.Key.Actor, p, in); err != nil {
			return nil, nil, err
		}
	}
	defer f.release()
	k, err := f.Start(ctx, w.Kind, w.Name)
	return k, f, err
}

// living gives the family that makes an actor's kernels, if there is one. It is not
// closed for want of use before it is released.
func (h *homes) living(actor string, p place) *housed {
	at := h.there(actor)
	if at == nil {
		return nil
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	f := at.families[p]
	if f == nil || at.ended || !at.container.Alive() || !alive(f.Done()) {
		return nil
	}
	f.starts++
	return f
}

// died waits shortly for the death that explains why a kernel could not be
// started, and reports whether there was one. f is nil when there was no family.
func (h *homes) died(ctx context.Context, actor string, f *housed) bool {
	at := h.there(actor)
	if at == nil {
		return false
	}
	at.mu.Lock()
	container := at.container
	at.mu.Unlock()
	var gone, dead <-chan struct{}
	if container != nil {
		gone = container.Done()
	}
	if f != nil {
		dead = f.Done()
	}
	limit := time.NewTimer(deathNotice)
	defer limit.Stop()
	select {
	case <-gone:
	case <-dead:
	case <-limit.C:
		return false
	case <-ctx.Done():
		return false
	}
	return true
}

// there gives an actor's home, if it has one.
func (h *homes) there(actor string) *home {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.actors[actor]
}

// at gives an actor's home, making it when there is none; nil when the node is
// shutting down. One that is made for an actor that has just ended is found by the next
// reconciliation, and ended.
func (h *homes) at(actor string) *home {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	at := h.actors[actor]
	if at == nil {
		at = &home{families: make(map[place]*housed)}
		h.actors[actor] = at
	}
	return at
}

// ready gives the family that makes an actor's kernels. Making the first one of an
// actor makes its container; callers that come meanwhile wait for it. The
// environment, nil for none, is the family's from now on. The family is not closed for
// want of use before it is released.
func (h *homes) ready(ctx context.Context, actor string, p place, in environment) (*housed, error) {
	if in != nil {
		defer func() {
			if in != nil {
				in.Release()
			}
		}()
	}
	at := h.at(actor)
	if at == nil {
		return nil, errors.New("the node is shutting down")
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.ended {
		return nil, fmt.Errorf("actor %q has ended", actor)
	}
	if err := h.open(ctx, at, actor); err != nil {
		return nil, err
	}
	if f := at.families[p]; f != nil {
		if alive(f.Done()) {
			f.starts++
			return f, nil
		}
		h.log.Warn("a family of kernels died and is made anew", "actor", actor, "language", p.language, "venv", p.venv)
		delete(at.families, p)
		if err := f.Close(); err != nil {
			h.log.Warn("what was left of it could not be closed", "error", err)
		}
	}
	made, err := h.make(ctx, at.container, actor, p, in)
	if err != nil {
		return nil, fmt.Errorf("start %s for actor %q: %w", p.language, actor, err)
	}
	f := &housed{family: made, in: in, home: at, starts: 1}
	in = nil
	at.families[p] = f
	if h.lean.Load() {
		f.Warm(false)
	}
	return f, nil
}

// open sees to it that the actor has a living container. at.mu is held.
func (h *homes) open(ctx context.Context, at *home, actor string) error {
	if at.container != nil {
		if at.container.Alive() {
			return nil
		}
		h.log.Warn("an actor's container died and is made anew", "actor", actor)
		h.empty(at)
	}
	workspace := h.workspace(actor)
	if err := os.MkdirAll(workspace, 0o700); err != nil {
		return fmt.Errorf("make the workspace of actor %q: %w", actor, err)
	}
	c, err := sandbox.Open(ctx, sandbox.Config{
		Name: actor, Workspace: workspace, Hide: []string{h.cfg.DataDir}, Show: h.cfg.shown(), Leash: h.leash, Log: h.log,
	})
	if err != nil {
		return fmt.Errorf("open the container of actor %q: %w", actor, err)
	}
	enforced := c.Enforced()
	at.container, at.enforced, at.used = c, &enforced, time.Now()
	return nil
}

// workspace is where an actor's code works. Actors' names are safe as file names
// by the rule of their making.
func (h *homes) workspace(actor string) string { return h.cfg.path("workspaces", actor) }

func (h *homes) family(ctx context.Context, c *sandbox.Container, actor string, p place, in environment) (family, error) {
	workspace := h.workspace(actor)
	env := sandbox.Environment(workspace)
	if p.language == surfaces.Python {
		interpreter, err := h.python()
		if in != nil {
			interpreter, err = in.Interpreter(), nil
			env = activate(env, interpreter)
		}
		if err != nil {
			return nil, err
		}
		return python.NewFamily(ctx, python.Config{
			Container: c, Interpreter: interpreter, Workspace: workspace, Env: env, Limits: h.cfg.Limits, Log: h.log,
		})
	}
	return shell.NewFamily(ctx, shell.Config{
		Container: c, Language: p.language, Path: h.shells[p.language], Workspace: workspace,
		Scratch: filepath.Join(workspace, ".locus"), CacheDir: h.cfg.path("cache"), Env: env, Limits: h.cfg.Limits, Log: h.log,
	})
}

// activate tells the programs that code starts that they are in a virtual environment,
// whose commands come before all others.
func activate(env []string, interpreter string) []string {
	bin := filepath.Dir(interpreter)
	out := make([]string, 0, len(env)+1)
	for _, v := range env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			v = "PATH=" + bin + string(os.PathListSeparator) + path
		}
		out = append(out, v)
	}
	return append(out, "VIRTUAL_ENV="+filepath.Dir(bin))
}

// empty closes what a home holds. at.mu is held.
func (h *homes) empty(at *home) {
	for p, f := range at.families {
		if err := f.Close(); err != nil {
			h.log.Warn("a family of kernels could not be closed", "language", p.language, "error", err)
		}
	}
	clear(at.families)
	if at.container != nil {
		if err := at.container.Close(); err != nil {
			h.log.Warn("a container could not be closed", "error", err)
		}
		at.container = nil
	}
}

// names lists the actors that have a home here.
func (h *homes) names() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.actors))
}

// end closes what an actor's code runs in. Its workspace stays.
func (h *homes) end(actor string) {
	h.mu.Lock()
	at := h.actors[actor]
	delete(h.actors, actor)
	h.mu.Unlock()
	if at == nil {
		return
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	at.ended = true
	h.empty(at)
}

// enforced tells what isolation holds for an actor's code; nil before it ran any.
func (h *homes) enforced(actor string) *sandbox.Enforced {
	at := h.there(actor)
	if at == nil {
		return nil
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	return at.enforced
}

// close ends every actor's home, side by side.
func (h *homes) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	var all sync.WaitGroup
	for _, actor := range h.names() {
		all.Go(func() { h.end(actor) })
	}
	all.Wait()
	if err := h.leash.Close(); err != nil {
		h.log.Warn("the leash could not be closed", "error", err)
	}
}

func alive(done <-chan struct{}) bool {
	select {
	case <-done:
		return false
	default:
		return true
	}
}
