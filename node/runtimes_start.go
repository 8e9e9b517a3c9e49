package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/locusrun/locus/node/engine"
	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/sandbox"
)

const (
	// startTries is how often a start is tried if the container or family dies under it.
	startTries = 3
	// deathNotice is how long to wait for a death that explains a failed start.
	deathNotice = time.Second
)

// startLimit bounds the start of a kernel, without the build of its environment.
const startLimit = 30 * time.Second

// Start starts a kernel for an actor's code. If the container or family dies during the
// start, both are made again and the start is repeated, which is safe as no code has run.
func (r *runtimes) Start(ctx context.Context, w engine.Want) (kernel.Kernel, error) {
	for try := 1; ; try++ {
		k, f, err := r.start(ctx, w)
		if err == nil {
			return k, nil
		}
		var failed *engine.StartError
		if try == startTries || errors.As(err, &failed) || !r.awaitDeath(ctx, w.Key.Actor, f) {
			return nil, err
		}
	}
}

// start makes one attempt. It also returns the family that was used.
func (r *runtimes) start(ctx context.Context, w engine.Want) (kernel.Kernel, *runningFamily, error) {
	p := familyKey{w.Key.Language, w.Key.Venv}
	f := r.livingFamily(w.Key.Actor, p)
	if f == nil {
		var err error
		if f, err = r.prepare(ctx, w, p); err != nil {
			return nil, nil, err
		}
	}
	defer f.release()
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	k, err := f.Start(ctx, w.Kind, w.Name)
	return k, f, err
}

// prepare makes what all kernels of a language and environment come from. The call's clock
// is held meanwhile.
func (r *runtimes) prepare(ctx context.Context, w engine.Want, p familyKey) (*runningFamily, error) {
	if w.Hold != nil {
		defer w.Hold()()
	}
	var in environment
	if p.venv != 0 {
		// The build is made without locks: the actor's other starts go on.
		var err error
		if in, err = r.environment(ctx, p.venv, w.Say); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	return r.ensureFamily(ctx, w.Key.Actor, p, in)
}

// livingFamily returns the family for an actor's kernels if it is alive. It is not closed as
// unused before release.
func (r *runtimes) livingFamily(actor string, p familyKey) *runningFamily {
	rt := r.get(actor)
	if rt == nil {
		return nil
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	f := rt.families[p]
	if f == nil || rt.ended || !rt.container.Alive() || !alive(f.Done()) {
		return nil
	}
	f.starts++
	return f
}

// awaitDeath reports whether the container or the family died, which explains a failed start. It
// waits up to deathNotice for that. f is nil if there was no family.
func (r *runtimes) awaitDeath(ctx context.Context, actor string, f *runningFamily) bool {
	rt := r.get(actor)
	if rt == nil {
		return false
	}
	rt.mu.Lock()
	container := rt.container
	rt.mu.Unlock()
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

// ensureFamily returns the family for an actor's kernels. It makes the family, and the actor's
// container, if needed; concurrent callers wait. It takes over the environment, nil for
// none. The family is not closed as unused before release.
func (r *runtimes) ensureFamily(ctx context.Context, actor string, p familyKey, in environment) (*runningFamily, error) {
	if in != nil {
		defer func() {
			if in != nil {
				in.Release()
			}
		}()
	}
	rt := r.getOrCreate(actor)
	if rt == nil {
		return nil, errors.New("the node is shutting down")
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.ended {
		return nil, fmt.Errorf("actor %q has ended", actor)
	}
	if err := r.ensureContainer(ctx, rt, actor); err != nil {
		return nil, err
	}
	if f := rt.families[p]; f != nil {
		if alive(f.Done()) {
			f.starts++
			return f, nil
		}
		r.log.Warn("a family of kernels died and is made anew", "actor", actor, "language", p.language, "venv", p.venv)
		delete(rt.families, p)
		if err := f.Close(); err != nil {
			r.log.Warn("what was left of it could not be closed", "error", err)
		}
	}
	made, err := r.make(ctx, rt.container, actor, p, in)
	if err != nil {
		return nil, fmt.Errorf("start %s for actor %q: %w", p.language, actor, err)
	}
	f := &runningFamily{family: made, in: in, owner: rt, starts: 1}
	in = nil
	rt.families[p] = f
	if r.noPrewarm.Load() {
		f.Warm(false)
	}
	return f, nil
}

// ensureContainer makes sure that the actor has a living container. rt.mu is held.
func (r *runtimes) ensureContainer(ctx context.Context, rt *actorRuntime, actor string) error {
	if rt.container != nil {
		if rt.container.Alive() {
			return nil
		}
		r.log.Warn("an actor's container died and is made anew", "actor", actor)
		r.closeContents(rt)
	}
	workspace := r.workspace(actor)
	if err := os.MkdirAll(workspace, 0o700); err != nil {
		return fmt.Errorf("make the workspace of actor %q: %w", actor, err)
	}
	c, err := sandbox.Open(ctx, sandbox.Config{
		Name: actor, Workspace: workspace, Hide: []string{r.cfg.DataDir}, Show: r.cfg.readableDirs(), Leash: r.leash, Log: r.log,
	})
	if err != nil {
		return fmt.Errorf("open the container of actor %q: %w", actor, err)
	}
	enforced := c.Enforced()
	rt.container, rt.enforced, rt.used = c, &enforced, time.Now()
	return nil
}

func alive(done <-chan struct{}) bool {
	select {
	case <-done:
		return false
	default:
		return true
	}
}
