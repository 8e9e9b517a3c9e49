package node

import (
	"context"
	"maps"
	"time"
)

const (
	// familyUnused is for how long a family is kept that has no kernel in use, and
	// containerUnused for how long a container that has no family.
	familyUnused    = 10 * time.Minute
	containerUnused = 30 * time.Minute
	// unusedEvery is the time between two looks for them.
	unusedEvery = time.Minute
)

// tend closes what nobody has used for a while, until ctx ends. It is made again when
// it is asked for.
func (h *homes) tend(ctx context.Context) {
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

// all lists the homes.
func (h *homes) all() map[string]*home {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.actors)
}

// closeUnused closes the families of which no kernel has been in use for so long, and
// the containers in which there has been no family for so long. It gives how many
// families it has closed.
func (h *homes) closeUnused(families, containers time.Duration) (closed int) {
	for actor, at := range h.all() {
		if !at.mu.TryLock() {
			continue // something is being made there
		}
		closed += h.closeUnusedOf(actor, at, families, containers)
		at.mu.Unlock()
	}
	return closed
}

// closeUnusedOf is closeUnused for one home. at.mu is held: a start that comes
// meanwhile waits, and makes the family anew.
func (h *homes) closeUnusedOf(actor string, at *home, families, containers time.Duration) (closed int) {
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
		h.empty(at)
	}
	return closed
}

// warm says whether kernels may be made ahead of their use. Homes in which something is
// being made at this moment are passed over, so the caller repeats it.
func (h *homes) warm(on bool) {
	h.lean.Store(!on)
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
