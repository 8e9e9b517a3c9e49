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

// hubCall is a call whose record this node holds, in flight on a linked machine. Execute
// waits for it. The machine reports over one stream after the other, each served by its own
// handler.
type hubCall struct {
	hub     *Hub
	attempt surfaces.Attempt
	machine Machine
	began   time.Time
	// offeredAt is the node at which the machine was last looked for; only run uses it.
	offeredAt string

	claimed  chan struct{} // closed when the machine has claimed the call
	stopping chan struct{} // closed when the call is to stop
	done     chan struct{} // closed when there is a result

	mu         sync.Mutex
	claim      sync.Once
	stop       sync.Once
	next       uint64                  // number of the next item
	received   map[string]int64        // by stream: bytes of output so far
	endStream  context.CancelCauseFunc // ends the stream that is being served
	detached   bool                    // Execute has returned; the sink gets no more events
	result     *surfaces.Result
	detachedAt time.Time // when Execute returned
}

const (
	// offerEvery is the interval at which an unclaimed call is offered again.
	offerEvery = time.Second
	// slack is how long after the call's deadline the hub waits for the machine. A machine
	// that is reachable has answered by then.
	slack = 1200 * time.Millisecond
	// stopWithin bounds the wait for a machine that was told to stop the call.
	stopWithin = 3 * time.Second
)

// Execute runs an attempt on the machine that the call is bound to. It is never retried: if
// the machine does not report in time, the outcome is unknown, and a late result goes to
// HubConfig.LateResult.
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

// InFlight reports whether a call is in flight on a machine.
func (h *Hub) InFlight(callID string) bool {
	f := h.find(callID)
	return f != nil && !f.isOver()
}

// Stop stops a call on its machine. It does not wait.
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

// resolve returns the call's machine, or a refusal if it is not linked or lacks the
// language.
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

// unlinked is the refusal for a machine that is not linked.
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

// run offers the call until the machine claims it, and waits for its result.
func (f *hubCall) run(ctx context.Context) surfaces.Result {
	deadline := time.NewTimer(f.attempt.Limit() + slack)
	defer deadline.Stop()
	again := time.NewTimer(0)
	defer again.Stop()
	claimed, stopping, stopped := f.claimed, f.stopping, (<-chan time.Time)(nil)
	offered := false // the machine may have an offer
	changed := f.hub.cfg.Directory.Changed()
	for {
		select {
		case <-again.C:
			said, err := f.offer(ctx)
			switch {
			case err == nil && said.Sent:
				offered = true
			case offered: // the machine may have an earlier offer
			case err == nil && said.Busy:
				return f.refuseUnsent(&surfaces.Refusal{
					Code: surfaces.CodeNoCapacity, RetryAfterS: 2,
					Message: fmt.Sprintf("machine %q has too many calls waiting; nothing ran", f.machine.Name),
				})
			default:
				return f.refuseUnsent(f.unreachable())
			}
			again.Reset(offerEvery)
		case <-claimed:
			claimed = nil
			again.Stop()
		case <-changed:
			changed = f.hub.cfg.Directory.Changed() // before the look, so that no change is missed
			switch m, ok := f.find(); {
			case !ok:
				return f.giveUp(offered, "the machine was unlinked during the call, which may have run there")
			case claimed != nil && stopping != nil && m.Node != "" && m.Node != f.offeredAt:
				again.Reset(0) // it has moved: the offer may be lost
			}
		case <-stopping:
			stopping, stopped = nil, time.After(stopWithin)
			if claimed != nil {
				// The stop is sent when the machine opens its stream. Until then there are
				// no more offers.
				again.Stop()
			}
		case <-stopped:
			return f.giveUp(offered, "the machine was told to stop the call and has not answered; the call may have run there")
		case <-f.done:
			return f.takeResult()
		case <-deadline.C:
			return f.giveUp(offered, "the machine has not sent a result within the call's deadline; the call may have run there, or may still run")
		case <-ctx.Done():
			return f.giveUp(offered, "this node closes; the call may have run on the machine, or may still run there")
		}
	}
}

// takeResult ends the wait after the result has come.
func (f *hubCall) takeResult() surfaces.Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.detach()
}

// giveUp ends the wait without a result, unless one has come at the same moment.
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

// refuseUnsent ends a call that has certainly not reached the machine.
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
