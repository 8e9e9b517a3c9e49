package node

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/locusrun/locus/node/engine"
	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/surfaces"
)

// pressure is the level of memory shortage.
type pressure int

const (
	calm pressure = iota
	low
	critical
)

// String returns the level as used in status and events.
func (p pressure) String() string { return [...]string{"none", "low", "critical"}[p] }

const (
	// memoryEvery is the interval of the checks.
	memoryEvery = time.Second
	// requiredCalmChecks is how many checks in a row must find the mark plus a quarter available
	// before the pressure ends.
	requiredCalmChecks = 30
	// lowFamilyUnused replaces familyUnused while memory is low.
	lowFamilyUnused = 10 * time.Second
	// defaultMemoryLow bounds the default low mark, which is a tenth of the memory.
	defaultMemoryLow = 512 << 20
)

// memory watches the available memory and frees what is not needed: first kernels that were
// started in advance, then unused families, then, if sessions may be closed for idleness,
// those idle for half of that time, the longest idle first, until there is enough. It never
// touches a session in use.
type memory struct {
	read func() (sandbox.Memory, error)
	mark int64 // low mark in bytes, 0 for the default; half of it is the critical mark

	// What can be freed:
	warm     func(on bool)
	families func() (closed int)
	sessions func(enough func() bool) (closed int) // asks enough before each that it closes
	// changed is called when the level changes.
	changed func(now, before pressure, m sandbox.Memory, mark int64)

	// Used by check only:
	lowChecks  int // checks below the mark since the pressure began
	calmChecks int // checks in a row with enough memory

	mu        sync.Mutex
	pressure  pressure
	last      sandbox.Memory
	exhausted bool // the last check found nothing to free
}

// lowMark returns the low mark for a total memory.
func (w *memory) lowMark(total int64) int64 {
	return cmp.Or(w.mark, min(total/10, defaultMemoryLow))
}

// check makes one check and acts on it.
func (w *memory) check() error {
	m, err := w.readMemory()
	if err != nil {
		return err
	}
	mark := w.lowMark(m.Total)
	before := w.level()
	now := w.nextLevel(m, mark, before)
	w.mu.Lock()
	w.pressure, w.last = now, m
	w.mu.Unlock()
	if now != before {
		w.changed(now, before, m, mark)
	}
	w.warm(now == calm)
	switch {
	case now == calm:
		w.lowChecks = 0
		w.setExhausted(false)
	case m.Available < mark:
		w.lowChecks++
		freed, err := w.free(mark)
		if err != nil {
			return err
		}
		w.setExhausted(!freed && w.lowChecks > 2)
	}
	return nil
}

// nextLevel returns the level after a check. It rises at once, and ends only after requiredCalmChecks
// good checks.
func (w *memory) nextLevel(m sandbox.Memory, mark int64, before pressure) pressure {
	switch {
	case m.Available < mark/2:
		w.calmChecks = 0
		return critical
	case m.Available < mark:
		w.calmChecks = 0
		return low
	case before == calm:
		return calm
	}
	if m.Available < mark/4*5 {
		w.calmChecks = 0
	} else if w.calmChecks++; w.calmChecks >= requiredCalmChecks {
		w.calmChecks = 0
		return calm
	}
	return low
}

// free frees in steps, one check after another, because freed memory shows only when the
// processes have ended. That is known of the sessions' processes, so the memory is read again
// before each. free reports whether it closed anything, or found that there is enough.
func (w *memory) free(mark int64) (freed bool, err error) {
	if w.lowChecks > 1 {
		freed = w.families() > 0
	}
	if w.lowChecks > 2 {
		there := false
		closed := w.sessions(func() bool {
			var m sandbox.Memory
			m, err = w.readMemory()
			there = err == nil && m.Available >= mark
			return there || err != nil
		})
		freed = freed || closed > 0 || there
	}
	return freed, err
}

// readMemory is read with a better error.
func (w *memory) readMemory() (sandbox.Memory, error) {
	m, err := w.read()
	if err != nil {
		return m, fmt.Errorf("memory cannot be watched: %w", err)
	}
	return m, nil
}

func (w *memory) setExhausted(bare bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.exhausted = bare
}

func (w *memory) level() pressure {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pressure
}

// status returns the level and the last reading.
func (w *memory) status() (pressure, sandbox.Memory) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pressure, w.last
}

// room refuses a kernel that may not be started now. At the critical level no session
// starts; if nothing is left to free, no kernel at all does.
func (w *memory) room(kind kernel.Kind) *surfaces.Refusal {
	if w.has(kind) {
		return nil
	}
	_, last := w.status()
	return &surfaces.Refusal{
		Code: surfaces.CodeNoCapacity, RetryAfterS: 5,
		Message:    fmt.Sprintf("this node has %d MiB of memory left and starts nothing more; nothing ran", last.Available>>20),
		Suggestion: "Close sessions that are not needed, use one that is there, or try again in a moment.",
	}
}

// has reports whether a kernel of a kind may be started now.
func (w *memory) has(kind kernel.Kind) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pressure != critical || kind == kernel.OneShot && !w.exhausted
}

// watchMemory checks the memory until ctx ends.
func (n *Node) watchMemory(ctx context.Context) {
	every := time.NewTicker(memoryEvery)
	defer every.Stop()
	failing := false
	for {
		err := n.memory.check()
		if err != nil && !failing {
			n.cfg.Log.Warn("the node cannot see when it is short of memory", "error", err)
		}
		failing = err != nil
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
	}
}

// newMemory makes the watcher of this node's memory.
func (n *Node) newMemory() *memory {
	return &memory{
		read: n.cfg.Memory, mark: n.cfg.MemoryLow, warm: n.runtimes.setPrewarm, changed: n.publishMemory,
		families: func() int { return n.runtimes.closeUnused(lowFamilyUnused, containerUnused) },
		sessions: func(enough func() bool) int {
			if n.cfg.SessionIdle == 0 {
				return 0
			}
			return n.engine.CloseIdle(n.cfg.SessionIdle/2, engine.ReasonPressure, enough)
		},
	}
}

// publishMemory logs and publishes a change of the level.
func (n *Node) publishMemory(now, before pressure, m sandbox.Memory, mark int64) {
	say := n.cfg.Log.Warn
	if now < before {
		say = n.cfg.Log.Info
	}
	say("memory pressure", "level", now.String(), "before", before.String(), "available_bytes", m.Available, "low_bytes", mark)
	n.events.publish("memory_pressure", map[string]any{
		"on": now != calm, "level": now.String(), "available_bytes": m.Available, "low_bytes": mark,
	})
}
