package engine

import (
	"context"
	"encoding/json"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/surfaces"
)

// asking counts the unanswered primitives of a run.
type asking struct {
	ctx   context.Context // ends with the run
	end   context.CancelFunc
	open  int // primitives without an answer; guarded by the run's mu
	bytes int // of their arguments; guarded by the run's mu
}

// ask passes a primitive to the host, and delivers the answer when it comes. It is called
// in the order in which the code asked, and does not block.
func (r *Run) ask(e kernel.Event) {
	r.mu.Lock()
	full := r.asking.open >= surfaces.MaxOpenUses || r.asking.bytes+len(e.Data) > surfaces.MaxOpenUsesBytes
	if !full {
		r.asking.open++
		r.asking.bytes += len(e.Data)
	}
	number := r.number
	r.mu.Unlock()
	wait := func(context.Context) json.RawMessage { return json.RawMessage(surfaces.AnswerNoHost) }
	switch {
	case full:
		wait = func(context.Context) json.RawMessage { return json.RawMessage(surfaces.AnswerTooMany) }
	case r.attempt.Host != nil:
		wait = r.attempt.Host.Ask(surfaces.Use{
			CallID: r.attempt.CallID, Actor: r.attempt.Actor, Attempt: r.attempt.Number, Seq: e.ID, Name: e.Name, Data: e.Data,
			Remaining: r.clock.remaining(),
		})
	}
	r.engine.spawn(func() {
		answer := wait(r.asking.ctx)
		if !full {
			r.mu.Lock()
			r.asking.open--
			r.asking.bytes -= len(e.Data)
			r.mu.Unlock()
		}
		if answer == nil {
			return
		}
		m := kernel.Message{Kind: kernel.MessagePrimitive, ID: e.ID, Number: number, Data: answer}
		if err := r.deliver(m); err != nil {
			r.engine.log.Debug("the answer to a primitive was not delivered", "call_id", r.attempt.CallID, "primitive", e.Name, "error", err)
		}
	})
}

// spawn runs f on a goroutine that Close waits for. If the engine is closed it returns
// false and does not run f.
func (e *Engine) spawn(f func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.watches.Go(f)
	return true
}

// deliver gives a message to the running code. If the code is paused it waits until it is
// resumed.
func (r *Run) deliver(m kernel.Message) error {
	for {
		r.mu.Lock()
		k, paused := r.kernel, r.resumed
		r.mu.Unlock()
		switch {
		case k == nil:
			return ErrNotRunning
		case paused == nil:
			return tell(k, m)
		}
		select {
		case <-paused:
		case <-r.asking.ctx.Done():
			return ErrNotRunning
		}
	}
}
