package agentlink

import (
	"context"
	"time"
)

// say has the directory told of a machine soon.
func (h *Hub) say(id string) {
	h.mu.Lock()
	h.unsaid[id] = true
	h.mu.Unlock()
	select {
	case h.news <- struct{}{}:
	default:
	}
}

const (
	// sayEvery is the least time between two rounds of telling the directory, sayAgain
	// the pause after one that failed, and sayWithin bounds what is said of one machine.
	sayEvery  = 50 * time.Millisecond
	sayAgain  = time.Second
	sayWithin = 10 * time.Second
)

// Run tells the directory who comes and goes, until ctx ends.
func (h *Hub) Run(ctx context.Context) {
	if h.cfg.Ready(ctx) != nil {
		return
	}
	for {
		select {
		case <-h.news:
		case <-ctx.Done():
			return
		}
		pause := sayEvery
		if !h.tell(ctx) {
			pause = sayAgain
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// tell notes every coming and going that is not noted yet; false when some could not be.
func (h *Hub) tell(ctx context.Context) bool {
	h.mu.Lock()
	ids := make([]string, 0, len(h.unsaid))
	for id := range h.unsaid {
		ids = append(ids, id)
	}
	clear(h.unsaid)
	h.mu.Unlock()
	ok := true
	for _, id := range ids {
		if err := h.note(ctx, id); err != nil {
			h.cfg.Log.Warn("the mesh could not be told of a machine; trying again", "machine", id, "error", err)
			h.say(id)
			ok = false
		}
	}
	return ok
}

// note tells the directory whether a machine is here.
func (h *Hub) note(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, sayWithin)
	defer cancel()
	h.mu.Lock()
	at := h.attached[id]
	var facts Facts
	if at != nil {
		facts = at.facts
	}
	h.mu.Unlock()
	if at == nil {
		return h.cfg.Directory.Parted(ctx, id)
	}
	if err := h.cfg.Directory.Met(ctx, id, facts); err != nil {
		return err
	}
	h.mu.Lock()
	at.noted = true
	h.mu.Unlock()
	return nil
}
