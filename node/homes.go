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
	"sync"
	"time"

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

	mu     sync.Mutex
	actors map[string]*home
	closed bool
}

type home struct {
	mu        sync.Mutex // held while something is being made
	container *sandbox.Container
	families  map[place]family
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
}

func newHomes(cfg Config) *homes {
	h := &homes{cfg: cfg, log: cfg.Log, shells: shell.Locate(), actors: make(map[string]*home)}
	found := make(chan struct{})
	var path string
	var err error
	go func() {
		defer close(found)
		if path = cfg.Interpreter; path != "" {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), findLimit)
		defer cancel()
		path, err = python.Locate(ctx)
	}()
	h.python = func() (string, error) { <-found; return path, err }
	return h
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

// Start gives a kernel for an actor's code. A container or a family that dies
// under the start is made anew and the kernel started there: no code has run.
func (h *homes) Start(ctx context.Context, key surfaces.SessionKey, kind kernel.Kind, name string) (kernel.Kernel, error) {
	p := place{key.Language, key.Venv}
	for try := 1; ; try++ {
		var k kernel.Kernel
		f, err := h.ready(ctx, key.Actor, p)
		if err == nil {
			if k, err = f.Start(ctx, kind, name); err == nil {
				return k, nil
			}
		}
		if try == startTries || !h.died(ctx, key.Actor, f) {
			return nil, err
		}
	}
}

// died waits shortly for the death that explains why a kernel could not be
// started, and reports whether there was one. f is nil when there was no family.
func (h *homes) died(ctx context.Context, actor string, f family) bool {
	at := h.at(actor)
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

// at gives an actor's home, making it when there is none; nil when the node is
// shutting down.
func (h *homes) at(actor string) *home {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	at := h.actors[actor]
	if at == nil {
		at = &home{families: make(map[place]family)}
		h.actors[actor] = at
	}
	return at
}

// ready gives the family that makes an actor's kernels. Making the first one of an
// actor makes its container; callers that come meanwhile wait for it.
func (h *homes) ready(ctx context.Context, actor string, p place) (family, error) {
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
			return f, nil
		}
		h.log.Warn("a family of kernels died and is made anew", "actor", actor, "language", p.language, "venv", p.venv)
		delete(at.families, p)
		if err := f.Close(); err != nil {
			h.log.Warn("what was left of it could not be closed", "error", err)
		}
	}
	f, err := h.family(ctx, at.container, actor, p)
	if err != nil {
		return nil, fmt.Errorf("start %s for actor %q: %w", p.language, actor, err)
	}
	at.families[p] = f
	return f, nil
}

// open sees to it that the actor has a living container. at.mu is held.
func (h *homes) open(ctx context.Context, at *home, actor string) error {
	if at.container != nil {
		if alive(at.container.Done()) {
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
		Name: actor, Workspace: workspace, Hide: []string{h.cfg.DataDir}, Log: h.log,
	})
	if err != nil {
		return fmt.Errorf("open the container of actor %q: %w", actor, err)
	}
	at.container = c
	return nil
}

// workspace is where an actor's code works. Actors' names are safe as file names
// by the rule of their making.
func (h *homes) workspace(actor string) string { return h.cfg.path("workspaces", actor) }

func (h *homes) family(ctx context.Context, c *sandbox.Container, actor string, p place) (family, error) {
	workspace := h.workspace(actor)
	env := sandbox.Environment(workspace)
	if p.language == surfaces.Python {
		interpreter, err := h.python()
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
	h.mu.Lock()
	at := h.actors[actor]
	h.mu.Unlock()
	if at == nil {
		return nil
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.container == nil {
		return nil
	}
	e := at.container.Enforced()
	return &e
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
}

func alive(done <-chan struct{}) bool {
	select {
	case <-done:
		return false
	default:
		return true
	}
}
