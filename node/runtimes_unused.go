package node

import (
	"context"
	"maps"
	"time"
)

const (
	// familyUnused is how long a family without kernels in use is kept, containerUnused how
	// long a container without a family.
	familyUnused    = 10 * time.Minute
	containerUnused = 30 * time.Minute
	// unusedEvery is the interval between checks.
	unusedEvery = time.Minute
)

// closeUnusedLoop closes unused families and containers until ctx ends. They are made again
// on demand.
func (r *runtimes) closeUnusedLoop(ctx context.Context) {
	every := time.NewTicker(unusedEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			r.closeUnused(familyUnused, containerUnused)
		case <-ctx.Done():
			return
		}
	}
}

// all returns a copy of the map of runtimes.
func (r *runtimes) all() map[string]*actorRuntime {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.actors)
}

// closeUnused closes the families that had no kernel in use, and the containers that had no
// family, for the given times. It returns the number of families closed.
func (r *runtimes) closeUnused(families, containers time.Duration) (closed int) {
	for actor, rt := range r.all() {
		if !rt.mu.TryLock() {
			continue // in use: something is being made there
		}
		closed += r.closeUnusedOf(actor, rt, families, containers)
		rt.mu.Unlock()
	}
	return closed
}

// closeUnusedOf is closeUnused for one runtime. rt.mu is held; a start that comes meanwhile
// waits and makes a new family.
func (r *runtimes) closeUnusedOf(actor string, rt *actorRuntime, families, containers time.Duration) (closed int) {
	now := time.Now()
	for p, f := range rt.families {
		if f.starts > 0 || f.Used() {
			f.used, rt.used = now, now
			continue
		}
		if now.Sub(f.used) < families {
			continue
		}
		delete(rt.families, p)
		rt.used = now
		closed++
		r.log.Info("kernels that nobody uses were closed", "actor", actor, "language", p.language, "venv", p.venv)
		if err := f.Close(); err != nil {
			r.log.Warn("a family of kernels could not be closed", "language", p.language, "error", err)
		}
	}
	if rt.container != nil && len(rt.families) == 0 && now.Sub(rt.used) >= containers {
		r.log.Info("a container that nobody uses was closed", "actor", actor)
		r.closeContents(rt)
	}
	return closed
}

// setPrewarm sets whether kernels are started in advance. It skips runtimes that are locked, so the
// caller has to repeat it.
func (r *runtimes) setPrewarm(on bool) {
	r.noPrewarm.Store(!on)
	for _, rt := range r.all() {
		if !rt.mu.TryLock() {
			continue
		}
		for _, f := range rt.families {
			f.Warm(on)
		}
		rt.mu.Unlock()
	}
}
