package engine

import (
	"time"

	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/surfaces"
)

// suspension is whether the engine's sessions are held still, because this node
// may not serve them at the moment.
type suspension struct {
	on      bool
	resumed chan struct{} // closed when it ends
}

// Suspend holds every session still, with what runs in it and in its copies, and
// starts nothing more in any. Deadlines of the calls in them wait. It is
// idempotent.
func (e *Engine) Suspend() {
	e.mu.Lock()
	if e.suspension.on {
		e.mu.Unlock()
		return
	}
	e.suspension = suspension{on: true, resumed: make(chan struct{})}
	sessions, runs := e.held()
	e.mu.Unlock()
	for _, r := range runs {
		r.suspend()
	}
	for _, s := range sessions {
		s.group(sandbox.Group.Freeze)
	}
}

// Resume lets the sessions go on. It is idempotent.
func (e *Engine) Resume() {
	e.mu.Lock()
	if !e.suspension.on {
		e.mu.Unlock()
		return
	}
	e.suspension.on = false
	close(e.suspension.resumed)
	sessions, runs := e.held()
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

// Fence ends every session, because this node owns none of them any more. What ran
// in them is lost, and nobody is told here: the registry knows already.
func (e *Engine) Fence() int {
	e.mu.Lock()
	sessions, _ := e.held()
	e.mu.Unlock()
	for _, s := range sessions {
		s.finish(reasonFenced, false)
	}
	e.retire(sessions)
	e.Resume()
	return len(sessions)
}

const reasonFenced = "fenced"

// fenced reports whether the session was ended because this node owns it no more.
func (s *session) fenced() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone && s.reason == reasonFenced
}

// held lists the sessions, and the runs in one. e.mu is held.
func (e *Engine) held() (sessions []*session, runs []*Run) {
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

// group does something to the group of the session's kernel.
func (s *session) group(do func(sandbox.Group) error) {
	s.mu.Lock()
	k, gone := s.kernel, s.gone
	s.mu.Unlock()
	if k == nil || gone {
		return
	}
	if err := do(k.Group()); err != nil {
		s.engine.log.Error("a session could not be held still or let go", "language", s.key.Language, "session", s.key.ID, "error", err)
	}
}

// heldSlack is how long after its deadline a call that is held still is answered for: as
// late as a call whose code had to be killed.
const heldSlack = 1200 * time.Millisecond

// Held reports whether the call is held still, because this node may not serve.
func (r *Run) Held() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.suspended
}

// Left gives what is left of the call's deadline, which stands still while the call is
// paused, held still, or waits for its process; 0 when it has passed.
func (r *Run) Left() time.Duration { return r.clock.remaining() }

// suspend stops the call's clock and holds its copy still, if it runs in one.
func (r *Run) suspend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || r.suspended {
		return
	}
	r.suspended = true
	if r.kernel == nil {
		return // its deadline goes on: it is waiting, and may wait in vain
	}
	r.stilled = true
	r.clock.hold()
	if early := r.attempt.Early; early != nil {
		out := surfaces.Outcome{Result: surfaces.Failed(r.engine.partial(&r.attempt, r.began), surfaces.CodeOutcomeUnknown, "the node is cut off from the mesh and holds the call still: it goes on if the node is back in time, and is lost with its session otherwise; what became of it is told under its call_id when it is known")}
		r.overdue = time.AfterFunc(r.clock.remaining()+heldSlack, func() { early(out) })
	}
	if !r.paused {
		if err := r.kernel.Group().Freeze(); err != nil {
			r.engine.log.Error("a call could not be held still", "call_id", r.attempt.CallID, "error", err)
		}
	}
}

// resume undoes suspend. A call that its caller has paused stays paused; then it
// gives the session whose kernel is to stay still.
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
			r.engine.log.Error("a call could not be let go", "call_id", r.attempt.CallID, "error", err)
		}
	}
	return nil
}

// leasePoll is the time between two looks whether the node may serve. Its lease becomes
// valid a moment after the sessions are resumed, and nothing tells of that.
const leasePoll = 20 * time.Millisecond

// serving waits until this node may serve sessions. It is asked before code starts
// and before what code said is the answer.
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
			wake = nil // it is closed already; what is waited for now is the lease
		}
		if !r.engine.rest(r.ctx.Done(), wake) {
			return errNotServing
		}
	}
}

// rest waits a moment, or until something comes; false when that is stop.
func (e *Engine) rest(stop, wake <-chan struct{}) bool {
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
