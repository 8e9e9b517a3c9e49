package agentlink

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// accept takes an offer. Each call is accepted only once, however often it is offered.
func (a *Agent) accept(o offer) {
	if !callIDPattern.MatchString(o.CallID) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.markSeen(o.CallID) {
		return
	}
	ctx, stop := context.WithCancelCause(a.ctx)
	w := newJob(o.CallID, o.Home, o.Program, stop)
	a.jobs[o.CallID] = w
	if o.Program != nil {
		a.all.Go(func() { a.run(ctx, w, o.Program) })
	}
	a.all.Go(func() { a.deliverAndRun(w, func(p *program) { a.all.Go(func() { a.run(ctx, w, p) }) }) })
}

// deliverResult delivers a call's result to its home node. An agent that shuts down makes
// one more attempt: an undelivered result stays on disk for the next start.
func (a *Agent) deliverResult(w *job) { a.deliverAndRun(w, func(*program) {}) }

func (a *Agent) deliverAndRun(w *job, begin func(*program)) {
	started := false
	pause := minRetryPause
	for a.talk.Err() == nil {
		addr, changed := a.where()
		if addr == "" {
			select {
			case <-changed:
				continue
			case <-a.ctx.Done():
				return
			}
		}
		forget, err := w.deliver(a.talk, a.mesh, addr, func(p *program) {
			if !started {
				started = true
				begin(p)
			}
		})
		if forget {
			a.release(w, err)
			return
		}
		if a.ctx.Err() != nil {
			return
		}
		a.cfg.Log.Debug("a call's home cannot be reached; retrying", "call_id", w.callID, "error", err)
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
			pause = min(2*pause, maxRetryPause)
		case <-changed:
			pause = minRetryPause
		case <-a.ctx.Done():
		}
		timer.Stop()
	}
}

// release forgets a call after its home has the result, or does not want one.
func (a *Agent) release(w *job, why error) {
	a.mu.Lock()
	delete(a.jobs, w.callID)
	a.mu.Unlock()
	close(w.released)
	if why != nil {
		w.stop(errStopped)
		a.cfg.Log.Info("a call's home no longer waits for the call", "call_id", w.callID)
	}
	if err := a.journal.remove(w.callID); err != nil {
		a.cfg.Log.Warn("a call's journal entry could not be removed", "call_id", w.callID, "error", err)
	}
}

// run asks the owner for consent and runs a program.
func (a *Agent) run(ctx context.Context, w *job, p *program) {
	w.mu.Lock()
	w.program = p
	w.mu.Unlock()
	began := time.Now()
	sum := sha256.Sum256([]byte(p.Code))
	entry := Entry{
		At: began, CallID: w.callID, What: "asked", Actor: p.Actor, Thought: p.Thought, Language: string(p.Language),
		Code: p.Code[:min(len(p.Code), MaxLoggedCode)], SHA256: hex.EncodeToString(sum[:]),
	}
	res := a.outcome(ctx, w, p, began, entry)
	w.finish(res)
	entry = Entry{At: time.Now(), CallID: w.callID, What: "ended", Outcome: outcomeOf(res), DurationMS: surfaces.Milliseconds(time.Since(began))}
	if err := a.log.write(entry); err != nil {
		a.cfg.Log.Error("the log could not be written", "error", err)
	}
	a.cfg.Progress(fmt.Sprintf("%s %s: %s after %s", shortID(w.callID), p.Language, entry.Outcome, time.Since(began).Round(time.Millisecond)))
	if err := a.journal.writeResult(w); err != nil {
		a.cfg.Log.Error("a result could not be written to disk; it is lost if the agent ends before it is delivered", "call_id", w.callID, "error", err)
	}
}

// outcome runs a program and returns its result. A call that cannot be logged or journaled
// is not run.
func (a *Agent) outcome(ctx context.Context, w *job, p *program, began time.Time, entry Entry) surfaces.Result {
	refused := func(r *surfaces.Refusal) surfaces.Result { return r.Result(surfaces.Partial{CallID: w.callID}) }
	unable := func(what string, err error) surfaces.Result {
		a.cfg.Log.Error("a call was not run", "call_id", w.callID, "error", err)
		return refused(&surfaces.Refusal{Code: surfaces.CodeInternal, Message: what + "; nothing ran"})
	}
	select {
	case a.slots <- struct{}{}:
		defer func() { <-a.slots }()
	default:
		return refused(&surfaces.Refusal{Code: surfaces.CodeNoCapacity, RetryAfterS: 1, Message: fmt.Sprintf("the machine runs %d calls already; nothing ran", a.cfg.MaxRunning)})
	}
	if err := a.log.write(entry); err != nil {
		return unable("the machine cannot write its log", err)
	}
	deadline := began.Add(p.Timeout)
	asking, cancel := context.WithDeadline(ctx, deadline)
	refusal := a.consent(asking, w, p)
	cancel()
	if ctx.Err() != nil {
		return refused(&surfaces.Refusal{Code: surfaces.CodeStopped, Message: stoppedBy(ctx) + " before it began; nothing ran"})
	}
	if refusal != nil {
		return refused(refusal)
	}
	if err := a.journal.writeStarted(w.callID, w.home); err != nil {
		return unable("the machine cannot note that the call begins", err)
	}
	a.cfg.Progress(fmt.Sprintf("%s %s runs %s: %s", shortID(w.callID), p.Actor, p.Language, firstLine(p.Code)))
	w.markStarted()
	res := a.cfg.Runner.Run(ctx, Program{
		CallID: w.callID, Language: string(p.Language), Code: p.Code, Stdin: p.Stdin, Timeout: leftOf(time.Until(deadline)), CallTimeout: p.Whole, Files: p.Files, Primitives: p.Primitives,
	}, w, w)
	if res.Code != nil && *res.Code == surfaces.CodeStopped && errors.Is(context.Cause(ctx), errLeaving) {
		res.Fail(surfaces.CodeStopped, stoppedBy(ctx))
	}
	return res
}

// stoppedBy says who stopped a call.
func stoppedBy(ctx context.Context) string {
	if errors.Is(context.Cause(ctx), errLeaving) {
		return "locus link was ended on the machine, and the call with it"
	}
	return "the call was stopped"
}

// consent gets the owner's consent. If that means asking, the caller gets a notice.
func (a *Agent) consent(ctx context.Context, w *job, p *program) *surfaces.Refusal {
	q := Question{CallID: w.callID, Actor: p.Actor, Thought: p.Thought, Language: string(p.Language), Code: p.Code, Folder: a.cfg.Folder}
	for _, f := range p.Files {
		q.Files = append(q.Files, f.Name)
	}
	if a.cfg.Policy.Consent == ConsentAsk && !a.gate.allowed(p.Actor) {
		w.Event(surfaces.Event{Kind: surfaces.EventNotice, Name: "consent", Text: "the machine's owner is asked"})
	}
	return a.gate.allows(ctx, q)
}
