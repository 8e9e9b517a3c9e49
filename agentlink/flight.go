package agentlink

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// flight is a call of this node's that runs, or is to run, on a machine. Execute waits for
// it; the machine's streams land on it, one after the other, in goroutines of their own.
type hubCall struct {
	hub     *Hub
	attempt surfaces.Attempt
	machine Machine
	began   time.Time

	claimed  chan struct{} // closed when the machine has said that it has the call
	stopping chan struct{} // closed when the call is to be stopped
	done     chan struct{} // closed when there is a result

	mu         sync.Mutex
	claim      sync.Once
	stop       sync.Once
	next       uint64 // number of the item that is to come
	received   map[string]int64
	endStream  context.CancelCauseFunc // ends the stream that is served now
	detached   bool                    // Execute has returned: the sink takes no more events
	result     *surfaces.Result
	detachedAt time.Time
}

const (
	// offerEvery is how often a call is offered that the machine has not claimed yet.
	offerEvery = time.Second
	// slack is how long after a call's deadline its machine is waited for: a machine that
	// can be reached has answered by then.
	slack = 1200 * time.Millisecond
	// stopWithin is how long a machine is waited for that was told to stop a call.
	stopWithin = 3 * time.Second
)

// Execute runs an attempt on the machine that its call is linked to. It is never tried
// again: when the machine does not come back in time the outcome is unknown, and a
// result that comes later goes to HubConfig.Late.
func (h *Hub) Execute(ctx context.Context, a surfaces.Attempt) surfaces.Outcome {
	f := &hubCall{
		hub: h, attempt: a, began: time.Now(), next: 1, received: map[string]int64{},
		claimed: make(chan struct{}), stopping: make(chan struct{}), done: make(chan struct{}),
	}
	f.event(surfaces.Event{Kind: surfaces.EventPlaced})
	m, refusal := f.resolve()
	if refusal != nil {
		return f.refused(refusal)
	}
	f.machine = m
	h.mu.Lock()
	h.calls[a.CallID] = f
	h.mu.Unlock()
	return surfaces.Outcome{Result: f.run(ctx)}
}

// Flies reports whether a call is on its way at a machine, and Stop stops it there.
func (h *Hub) Flies(callID string) bool {
	f := h.find(callID)
	return f != nil && !f.isOver()
}

// Stop makes a call end that runs on a machine. It returns at once.
func (h *Hub) Stop(callID string) {
	if f := h.find(callID); f != nil {
		f.stop.Do(func() { close(f.stopping) })
	}
}

func (h *Hub) find(callID string) *hubCall {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls[callID]
}

func (f *hubCall) isOver() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.detached || f.result != nil
}

// find gives the machine, if it has the call's language.
func (f *hubCall) resolve() (Machine, *surfaces.Refusal) {
	call := &f.attempt.Call
	if call.Linked == nil {
		return Machine{}, &surfaces.Refusal{Code: surfaces.CodeMachineNotLinked, Message: "no machine is linked for the call; nothing ran"}
	}
	m, ok := f.hub.cfg.Directory.Find(call.Actor, call.Linked.Place, call.Linked.Name)
	switch {
	case !ok:
		return m, f.unlinked()
	case len(m.Languages) > 0 && !slices.Contains(m.Languages, string(call.Language)):
		return m, &surfaces.Refusal{
			Code:       surfaces.CodeUnsupportedLanguage,
			Message:    fmt.Sprintf("machine %q has no %s; nothing ran", m.Name, call.Language),
			Suggestion: "Set language to one that the machine has: " + strings.Join(m.Languages, ", ") + ".",
		}
	}
	return m, nil
}

// unlinked and unreachable are why a call does not run at all.
func (f *hubCall) unlinked() *surfaces.Refusal {
	return &surfaces.Refusal{
		Code:       surfaces.CodeMachineNotLinked,
		Message:    fmt.Sprintf("machine %q is not linked any more; nothing ran", f.attempt.Call.Linked.Name),
		Suggestion: "Set machine to one that is linked; locus machines lists them.",
	}
}

func (f *hubCall) unreachable() *surfaces.Refusal {
	return &surfaces.Refusal{
		Code: surfaces.CodeMachineUnreachable, RetryAfterS: 5,
		Message:    fmt.Sprintf("machine %q is not connected: it is asleep or switched off, or its network is away; nothing ran", f.machine.Name),
		Suggestion: "Wait until locus machines shows the machine as connected, or set surface to one that is.",
	}
}

// run offers the call until the machine has it, and waits for its result.
func (f *hubCall) run(ctx context.Context) surfaces.Result {
	deadline := time.NewTimer(f.attempt.Limit() + slack)
	defer deadline.Stop()
	again := time.NewTimer(0)
	defer again.Stop()
	claimed, stopping, stopped := f.claimed, f.stopping, (<-chan time.Time)(nil)
	offered := false // the machine may have it
	for {
		changed := f.hub.cfg.Directory.Changed()
		select {
		case <-again.C:
			said, err := f.offer(ctx)
			switch {
			case err == nil && said.Sent:
				offered = true
			case offered: // it may have it by an earlier one
			case err == nil && said.Busy:
				return f.refuseUnsent(&surfaces.Refusal{
					Code: surfaces.CodeNoCapacity, RetryAfterS: 2,
					Message: fmt.Sprintf("machine %q has more calls before it than it takes; nothing ran", f.machine.Name),
				})
			default:
				return f.refuseUnsent(f.unreachable())
			}
			again.Reset(offerEvery)
		case <-claimed:
			claimed = nil
			again.Stop()
		case <-changed:
			if m, ok := f.hub.cfg.Directory.Find(f.attempt.Call.Actor, f.machine.Place, f.machine.Name); !ok || m.ID != f.machine.ID {
				return f.giveUp(offered, "the machine was unlinked under the call; it may have run there")
			}
		case <-stopping:
			stopping, stopped = nil, time.After(stopWithin)
			if claimed != nil {
				// Its stream, when it comes, is told. Until then nothing more is offered.
				again.Stop()
			}
		case <-stopped:
			return f.giveUp(offered, "the machine was told to stop the call and has not answered; the call may have run there")
		case <-f.done:
			return f.takeResult()
		case <-deadline.C:
			return f.giveUp(offered, "the machine has not come back with a result within the call's deadline; the call may have run there, or may still run")
		case <-ctx.Done():
			return f.giveUp(offered, "this node closes; the call may have run on the machine, or may still run there")
		}
	}
}

// over ends the wait with the result that is there.
func (f *hubCall) takeResult() surfaces.Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.detach()
}

// giveUp ends the wait without one, unless it has just come.
func (f *hubCall) giveUp(offered bool, why string) surfaces.Result {
	if !offered {
		return f.refuseUnsent(f.unreachable())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	came := f.result != nil
	if res := f.detach(); came {
		return res
	}
	return surfaces.Failed(f.partial(), surfaces.CodeOutcomeUnknown, why)
}

// drop ends a flight that surely never began.
func (f *hubCall) refuseUnsent(r *surfaces.Refusal) surfaces.Result {
	f.hub.mu.Lock()
	delete(f.hub.calls, f.attempt.CallID)
	f.hub.mu.Unlock()
	return f.refused(r).Result
}

func (f *hubCall) refused(r *surfaces.Refusal) surfaces.Outcome {
	return surfaces.Outcome{Result: r.Result(f.partial())}
}

func (f *hubCall) partial() surfaces.Partial {
	return surfaces.Partial{
		CallID: f.attempt.CallID, Node: f.hub.cfg.Node, At: f.attempt.Call.Coordinates(), Attempts: f.attempt.Number,
		DurationMS: surfaces.Milliseconds(time.Since(f.began)),
	}
}
