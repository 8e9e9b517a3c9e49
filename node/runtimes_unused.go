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

// closeUnusedLoop closes unused families and containers until ctx ends. They are made again on demand.
func (h *runtimes) closeUnusedLoop(ctx context.Context) {
	every := time.NewTicker(unusedEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			h.closeUnused(familyUnused, containerUnused)
		case <-ctx.Done():
			return
		}
	}
}

// all returns a copy of the map of runtimes.
func (h *runtimes) all() map[string]*actorRuntime {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.actors)
}

// closeUnused closes the families that had no kernel in use, and the containers that had no
// family, for the given times. It returns the number of families closed.
func (h *runtimes) closeUnused(families, containers time.Duration) (closed int) {
	for actor, at := range h.all() {
		if !at.mu.TryLock() {
			continue // in use: something is being made there
		}
		closed += h.closeUnusedOf(actor, at, families, containers)
		at.mu.Unlock()
	}
	return closed
}

// closeUnusedOf is closeUnused for one home. at.mu is held; a start that comes meanwhile
// waits and makes a new family.
func (h *runtimes) closeUnusedOf(actor string, at *actorRuntime, families, containers time.Duration) (closed int) {
	now := time.Now()
	for p, f := range at.families {
		if f.starts > 0 || f.Used() {
			f.used, at.used = now, now
			continue
		}
		if now.Sub(f.used) < families {
			continue
		}
		delete(at.families, p)
		at.used = now
		closed++
		h.log.Info("kernels that nobody uses were closed", "actor", actor, "language", p.language, "venv", p.venv)
		if err := f.Close(); err != nil {
			h.log.Warn("a family of kernels could not be closed", "language", p.language, "error", err)
		}
	}
	if at.container != nil && len(at.families) == 0 && now.Sub(at.used) >= containers {
		h.log.Info("a container that nobody uses was closed", "actor", actor)
		h.closeContents(at)
	}
	return closed
}

// setPrewarm sets whether kernels are started in advance. It skips runtimes that are locked, so the
// caller has to repeat it.
func (h *runtimes) setPrewarm(on bool) {
	h.noPrewarm.Store(!on)
	for _, at := range h.all() {
		if !at.mu.TryLock() {
			continue
		}
		for _, f := range at.families {
			f.Warm(on)
		}
		at.mu.Unlock()
	}
}
