package node

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/locusrun/locus/node/kernel/python"
	"github.com/locusrun/locus/node/kernel/shell"
	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/surfaces"
)

// runtimes manages what each actor's code runs in: one container with the actor's workspace,
// and in it one family of kernels for each language and environment. They are made on first
// use, and again after they died.
type runtimes struct {
	cfg    Config
	log    *slog.Logger
	shells map[surfaces.Language]string
	python func() (string, error) // waits until the interpreter was looked up
	// environment returns a stored environment and builds it if needed.
	environment func(ctx context.Context, id int, say func(line string)) (environment, error)
	// make starts a family.
	make      func(ctx context.Context, c *sandbox.Container, actor string, p familyKey, in environment) (family, error)
	noPrewarm atomic.Bool // low on memory: no kernels are started in advance
	leash     *sandbox.Leash

	mu     sync.Mutex
	actors map[string]*actorRuntime
	closed bool
}

type actorRuntime struct {
	mu        sync.Mutex // held while a container or family is made or closed
	container *sandbox.Container
	enforced  *sandbox.Enforced // isolation of the latest container; nil before the first
	families  map[familyKey]*runningFamily
	used      time.Time // when the container last had something in use
	ended     bool
}

type familyKey struct {
	language surfaces.Language
	venv     int
}

func newRuntimes(cfg Config) (*runtimes, error) {
	leash, err := sandbox.NewLeash()
	if err != nil {
		return nil, err
	}
	h := &runtimes{cfg: cfg, log: cfg.Log, shells: shell.Locate(), leash: leash, actors: make(map[string]*actorRuntime)}
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

// languages lists the languages that this machine can run, in the contract's order.
func (h *runtimes) languages() []surfaces.Language {
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

// get returns an actor's home; nil if it has none.
func (h *runtimes) get(actor string) *actorRuntime {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.actors[actor]
}

// getOrCreate returns an actor's home and makes one if needed; nil if the node is shutting down. If
// the actor ended meanwhile, the next reconciliation ends the new home.
func (h *runtimes) getOrCreate(actor string) *actorRuntime {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	at := h.actors[actor]
	if at == nil {
		at = &actorRuntime{families: make(map[familyKey]*runningFamily)}
		h.actors[actor] = at
	}
	return at
}

// closeContents closes the container and the families of a home. at.mu is held.
func (h *runtimes) closeContents(at *actorRuntime) {
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

// endActor closes what an actor's code runs in. The workspace stays.
func (h *runtimes) endActor(actor string) {
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
	h.closeContents(at)
}

// enforced returns the isolation of an actor's code; nil before any has run.
func (h *runtimes) enforced(actor string) *sandbox.Enforced {
	at := h.get(actor)
	if at == nil {
		return nil
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	return at.enforced
}

// close ends all runtimes concurrently.
func (h *runtimes) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	var all sync.WaitGroup
	for actor := range h.all() {
		all.Go(func() { h.endActor(actor) })
	}
	all.Wait()
	if err := h.leash.Close(); err != nil {
		h.log.Warn("the leash could not be closed", "error", err)
	}
}
