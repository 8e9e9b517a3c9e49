package engine

import (
	"time"

	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/surfaces"
)

// suspension records whether the engine's sessions are frozen, because this node may not
// serve them now.
type suspension struct {
	on      bool
	resumed chan struct{} // closed when the suspension ends
}

// Suspend freezes all sessions with everything that runs in them and in their copies, and
// starts nothing in them. The clocks of running calls stop. It is idempotent.
func (e *Engine) Suspend() {
	e.mu.Lock()
	if e.suspension.on {
		e.mu.Unlock()
		return
	}
	e.suspension = suspension{on: true, resumed: make(chan struct{})}
	sessions, runs := e.sessionsAndRuns()
	e.mu.Unlock()
	for _, r := range runs {
		r.suspend()
	}
	for _, s := range sessions {
		s.group(sandbox.Group.Freeze)
	}
}

// Resume undoes Suspend. It is idempotent.
func (e *Engine) Resume() {
	e.mu.Lock()
	if !e.suspension.on {
		e.mu.Unlock()
		return
	}
	e.suspension.on = false
	close(e.suspension.resumed)
	sessions, runs := e.sessionsAndRuns()
	e.mu.Unlock()
	paused := make(map[*session]bool)
	for _, r := range runs {
		if s := r.resume(); s != nil {
			paused[s] = true
		}
	}
	for _, s := range sessions {
		if !paused[s] {
			s.group(sandbox.Group.Thaw)
		}
	}
}

// Fence ends every session, because this node no longer owns any. Running calls are lost.
// The sessions are not reported as lost: the registry knows already. It returns how many
// sessions there were.
func (e *Engine) Fence() int {
	e.mu.Lock()
	sessions, _ := e.sessionsAndRuns()
	e.mu.Unlock()
	for _, s := range sessions {
		s.finish(reasonFenced, false)
	}
	e.retire(sessions)
	e.Resume()
	return len(sessions)
}

const reasonFenced = "fenced"

// fenced reports whether the session was ended because this node no longer owns it.
func (s *session) fenced() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone && s.reason == reasonFenced
}

// sessionsAndRuns returns the sessions, and the runs that have a session. e.mu is held.
func (e *Engine) sessionsAndRuns() (sessions []*session, runs []*Run) {
	for _, s := range e.sessions {
		sessions = append(sessions, s)
	}
	for _, r := range e.runs {
		if r.attempt.Call.Session != nil {
			runs = append(runs, r)
		}
	}
	return sessions, runs
}

// group applies do to the process group of the session's kernel.
func (s *session) group(do func(sandbox.Group) error) {
	s.mu.Lock()
	k, gone := s.kernel, s.gone
	s.mu.Unlock()
	if k == nil || gone {
		return
	}
	if err := do(k.Group()); err != nil {
		s.engine.log.Error("a session could not be frozen or thawed", "language", s.key.Language, "session", s.key.ID, "error", err)
	}
}

// heldSlack is how long after its deadline the early answer of a suspended call is sent. It
// is the time that killing a call's code may take.
const heldSlack = 1200 * time.Millisecond

// Held reports whether the call is suspended, because this node may not serve.
func (r *Run) Held() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.suspended
}

// Remaining returns the remaining time until the call's deadline; 0 if that has passed. The
// clock stands still while the call is paused, suspended, or waits for its process.
func (r *Run) Remaining() time.Duration { return r.clock.remaining() }

// suspend stops the call's clock and freezes its process.
func (r *Run) suspend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || r.suspended {
		return
	}
	r.suspended = true
	if r.kernel != nil { // otherwise it only waits: its deadline goes on
		r.still()
	}
}

// still stops the clock and freezes the process of a call that is suspended. r.mu is held.
func (r *Run) still() {
	r.stilled = true
	r.clock.hold()
	if early := r.attempt.Early; early != nil {
		out := surfaces.Outcome{Result: surfaces.Failed(r.engine.partial(&r.attempt, r.began), surfaces.CodeOutcomeUnknown, "the node is cut off from the mesh and has frozen the call: it continues if the node is back in time, and is lost with its session otherwise; its outcome will be available under its call_id")}
		r.overdue = time.AfterFunc(r.clock.remaining()+heldSlack, func() { early(out) })
	}
	if !r.paused {
		if err := r.kernel.Group().Freeze(); err != nil {
			r.engine.log.Error("a call could not be frozen", "call_id", r.attempt.CallID, "error", err)
		}
	}
}

// resume undoes suspend. A call that its caller has paused stays paused; then resume
// returns its session, whose kernel must stay frozen.
func (r *Run) resume() *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.suspended {
		return nil
	}
	r.suspended = false
	if r.stilled {
		r.stilled = false
		r.clock.release()
	}
	if r.overdue != nil {
		r.overdue.Stop()
	}
	if r.paused {
		return r.session
	}
	if r.kernel != nil {
		if err := r.kernel.Group().Thaw(); err != nil {
			r.engine.log.Error("a call could not be thawed", "call_id", r.attempt.CallID, "error", err)
		}
	}
	return nil
}

// leasePoll is the interval of checks whether the node may serve. Its lease becomes valid a
// moment after the sessions are resumed, and there is no event for it.
const leasePoll = 20 * time.Millisecond

// serving waits until this node may serve sessions. It is called before code starts.
func (r *Run) serving() error {
	if r.attempt.Call.Session == nil {
		return nil
	}
	for {
		r.engine.mu.Lock()
		at := r.engine.suspension
		r.engine.mu.Unlock()
		if !at.on && r.engine.cfg.Serving() {
			return nil
		}
		wake := at.resumed
		if !at.on {
			wake = nil // it is closed already: only the lease is missing
		}
		if !r.engine.pause(r.ctx.Done(), wake) {
			return errNotServing
		}
	}
}

// pause waits for leasePoll, or until wake. It returns false if stop comes first.
func (e *Engine) pause(stop, wake <-chan struct{}) bool {
	poll := time.NewTimer(leasePoll)
	defer poll.Stop()
	select {
	case <-wake:
	case <-poll.C:
	case <-stop:
		return false
	}
	return true
}
