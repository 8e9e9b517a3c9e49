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

// actorRuntime is what the code of one actor runs in.
type actorRuntime struct {
	mu        sync.Mutex // held while a container or family is made or closed
	container *sandbox.Container
	enforced  *sandbox.Enforced // isolation of the latest container; nil before the first
	families  map[familyKey]*runningFamily
	used      time.Time // when the container last had something in use
	ended     bool
}

// familyKey is the language and stored environment of a family; venv is 0 for none.
type familyKey struct {
	language surfaces.Language
	venv     int
}

func newRuntimes(cfg Config) (*runtimes, error) {
	leash, err := sandbox.NewLeash()
	if err != nil {
		return nil, err
	}
	r := &runtimes{cfg: cfg, log: cfg.Log, shells: shell.Locate(), leash: leash, actors: make(map[string]*actorRuntime)}
	r.make = r.family
	found := make(chan struct{})
	var path string
	var errFind error
	go func() {
		defer close(found)
		if path = cfg.Interpreter; path != "" {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), findLimit)
		defer cancel()
		path, errFind = python.Locate(ctx)
	}()
	r.python = func() (string, error) { <-found; return path, errFind }
	return r, nil
}

// languages lists the languages that this machine can run, in the contract's order.
func (r *runtimes) languages() []surfaces.Language {
	var list []surfaces.Language
	for _, l := range surfaces.Languages() {
		if l == surfaces.Python {
			if _, err := r.python(); err != nil {
				continue
			}
		} else if r.shells[l] == "" {
			continue
		}
		list = append(list, l)
	}
	return list
}

// get returns an actor's runtime; nil if it has none.
func (r *runtimes) get(actor string) *actorRuntime {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.actors[actor]
}

// getOrCreate returns an actor's runtime, and makes one if needed; nil if the node is shutting
// down. If the actor has ended meanwhile, the next reconciliation ends the new runtime.
func (r *runtimes) getOrCreate(actor string) *actorRuntime {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	rt := r.actors[actor]
	if rt == nil {
		rt = &actorRuntime{families: make(map[familyKey]*runningFamily)}
		r.actors[actor] = rt
	}
	return rt
}

// closeContents closes the container and the families of a runtime. rt.mu is held.
func (r *runtimes) closeContents(rt *actorRuntime) {
	for p, f := range rt.families {
		if err := f.Close(); err != nil {
			r.log.Warn("a family of kernels could not be closed", "language", p.language, "error", err)
		}
	}
	clear(rt.families)
	if rt.container != nil {
		if err := rt.container.Close(); err != nil {
			r.log.Warn("a container could not be closed", "error", err)
		}
		rt.container = nil
	}
}

// endActor closes what an actor's code runs in. The workspace stays.
func (r *runtimes) endActor(actor string) {
	r.mu.Lock()
	rt := r.actors[actor]
	delete(r.actors, actor)
	r.mu.Unlock()
	if rt == nil {
		return
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.ended = true
	r.closeContents(rt)
}

// enforced returns the isolation of an actor's code; nil before any has run.
func (r *runtimes) enforced(actor string) *sandbox.Enforced {
	rt := r.get(actor)
	if rt == nil {
		return nil
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return rt.enforced
}

// close ends all runtimes concurrently.
func (r *runtimes) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	var all sync.WaitGroup
	for actor := range r.all() {
		all.Go(func() { r.endActor(actor) })
	}
	all.Wait()
	if err := r.leash.Close(); err != nil {
		r.log.Warn("the leash could not be closed", "error", err)
	}
}
