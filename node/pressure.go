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

// pressure says how short of memory the node is.
type pressure int

const (
	calm pressure = iota
	low
	critical
)

// String gives the word for people and programs.
func (p pressure) String() string { return [...]string{"none", "low", "critical"}[p] }

const (
	// memoryEvery is how often it is looked how much memory there is.
	memoryEvery = time.Second
	// calmLooks is how many looks in a row must find enough memory, and a quarter more,
	// before the pressure is over.
	calmLooks = 30
	// lowFamilyUnused is for how long a family is kept that nobody uses while memory is
	// low.
	lowFamilyUnused = 10 * time.Second
	// defaultMemoryLow is the low mark where a tenth of the memory is more.
	defaultMemoryLow = 512 << 20
)

// memory watches how much memory there is, and frees what can be done without: first
// the kernels that were made ahead of their use, then families that nobody uses, then,
// where sessions may be closed for being idle, those that have been so for half of the
// time. It never touches a session that is used.
type memory struct {
	read func() (sandbox.Memory, error)
	mark int64 // the low mark; 0 means the default. Half of it is the critical one.

	// What can be freed:
	warm     func(on bool)
	families func() (closed int)
	sessions func() (closed int)
	// changed is told when the pressure is another than before.
	changed func(now, before pressure, m sandbox.Memory, mark int64)

	// Of look alone:
	looks int // since the pressure began
	good  int // looks in a row

	mu   sync.Mutex
	at   pressure
	last sandbox.Memory
	bare bool // nothing was left to be freed at the last look
}

// lowMark gives the low mark for so much memory.
func (w *memory) lowMark(total int64) int64 {
	return cmp.Or(w.mark, min(total/10, defaultMemoryLow))
}

// look takes one reading and does what it calls for.
func (w *memory) look() error {
	m, err := w.read()
	if err != nil {
		return fmt.Errorf("memory cannot be watched: %w", err)
	}
	mark := w.lowMark(m.Total)
	before := w.present()
	now := w.judge(m, mark, before)
	w.mu.Lock()
	w.at, w.last = now, m
	w.mu.Unlock()
	if now != before {
		w.changed(now, before, m, mark)
	}
	w.warm(now == calm)
	switch {
	case now == calm:
		w.looks = 0
		w.setBare(false)
	case m.Available < mark:
		w.looks++
		w.setBare(w.free() == 0 && w.looks > 2)
	}
	return nil
}

// judge gives the pressure after a reading. It begins at once and is over when it has
// been gone for a while.
func (w *memory) judge(m sandbox.Memory, mark int64, before pressure) pressure {
	switch {
	case m.Available < mark/2:
		w.good = 0
		return critical
	case m.Available < mark:
		w.good = 0
		return low
	case before == calm:
		return calm
	}
	if m.Available < mark/4*5 {
		w.good = 0
	} else if w.good++; w.good >= calmLooks {
		w.good = 0
		return calm
	}
	return low
}

// free frees one thing after the other, look by look: what was freed by one shows only
// at the next. It gives how many families and sessions it has closed.
func (w *memory) free() (closed int) {
	if w.looks > 1 {
		closed += w.families()
	}
	if w.looks > 2 {
		closed += w.sessions()
	}
	return closed
}

func (w *memory) setBare(bare bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bare = bare
}

func (w *memory) present() pressure {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}

// standing gives the pressure and the last reading.
func (w *memory) standing() (pressure, sandbox.Memory) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at, w.last
}

// room gives the reason why no kernel of a kind may be started now: under critical
// pressure no session begins, and when nothing is left that can be freed nothing does.
func (w *memory) room(kind kernel.Kind) *surfaces.Refusal {
	if w.has(kind) {
		return nil
	}
	_, last := w.standing()
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
	return w.at != critical || kind == kernel.OneShot && !w.bare
}

// watchMemory looks at the memory until ctx ends.
func (n *Node) watchMemory(ctx context.Context) {
	every := time.NewTicker(memoryEvery)
	defer every.Stop()
	failing := false
	for {
		err := n.memory.look()
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

// newMemory makes the watch over this node's memory.
func (n *Node) newMemory() *memory {
	return &memory{
		read: n.cfg.Memory, mark: n.cfg.MemoryLow, warm: n.homes.warm, changed: n.tellMemory,
		families: func() int { return n.homes.closeUnused(lowFamilyUnused, containerUnused) },
		sessions: func() int {
			if n.cfg.SessionIdle == 0 {
				return 0
			}
			return n.engine.CloseIdle(n.cfg.SessionIdle/2, engine.ReasonPressure)
		},
	}
}

// tellMemory says that the pressure has changed.
func (n *Node) tellMemory(now, before pressure, m sandbox.Memory, mark int64) {
	say := n.cfg.Log.Warn
	if now < before {
		say = n.cfg.Log.Info
	}
	say("memory pressure", "level", now.String(), "before", before.String(), "available_bytes", m.Available, "low_bytes", mark)
	n.events.publish("memory_pressure", map[string]any{
		"on": now != calm, "level": now.String(), "available_bytes": m.Available, "low_bytes": mark,
	})
}
