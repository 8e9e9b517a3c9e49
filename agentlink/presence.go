package agentlink

import (
	"context"
	"time"
)

// reportSoon schedules a report of a machine's presence to the directory.
func (h *Hub) reportSoon(id string) {
	h.mu.Lock()
	h.unreported[id] = true
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

const (
	// reportEvery is the minimum time between two rounds of reports, reportRetry the pause
	// after a failed round, and reportWithin bounds the report on one machine.
	reportEvery  = 50 * time.Millisecond
	reportRetry  = time.Second
	reportWithin = 10 * time.Second
)

// Run reports connected and disconnected machines to the directory until ctx ends.
func (h *Hub) Run(ctx context.Context) {
	if h.cfg.AwaitReady(ctx) != nil {
		return
	}
	for {
		select {
		case <-h.wake:
		case <-ctx.Done():
			return
		}
		pause := reportEvery
		if !h.reportAll(ctx) {
			pause = reportRetry
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

// reportAll makes all pending reports. It returns false if some failed; they stay pending.
func (h *Hub) reportAll(ctx context.Context) bool {
	h.mu.Lock()
	ids := make([]string, 0, len(h.unreported))
	for id := range h.unreported {
		ids = append(ids, id)
	}
	clear(h.unreported)
	h.mu.Unlock()
	ok := true
	for _, id := range ids {
		if err := h.report(ctx, id); err != nil {
			h.cfg.Log.Warn("a machine could not be reported to the directory; retrying", "machine", id, "error", err)
			h.reportSoon(id)
			ok = false
		}
	}
	return ok
}

// report tells the directory whether a machine is connected to this node.
func (h *Hub) report(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, reportWithin)
	defer cancel()
	h.mu.Lock()
	at := h.attached[id]
	var facts Facts
	if at != nil {
		facts = at.facts
	}
	h.mu.Unlock()
	if at == nil {
		return h.cfg.Directory.Disconnected(ctx, id)
	}
	if err := h.cfg.Directory.Connected(ctx, id, facts); err != nil {
		return err
	}
	h.mu.Lock()
	at.reported = true
	h.mu.Unlock()
	return nil
}
