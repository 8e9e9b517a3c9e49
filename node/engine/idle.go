package engine

import (
	"context"
	"time"
)

// Reasons for which a session is closed though nothing went wrong with it.
const (
	ReasonIdle     = "idle"
	ReasonPressure = "memory_pressure"
)

// Bounds on how often it is looked for sessions that are idle.
const (
	looksInLimit = 8
	shortestLook = 10 * time.Millisecond
	longestLook  = 30 * time.Second
)

// stir is what a look at a session's processes has shown.
type stir struct {
	spent uint64    // of processor time, in ticks
	last  time.Time // when a look last showed that something goes on
}

// Tend closes each session that has been idle for limit, until ctx ends. It does so with a
// delay of an eighth of limit, and of half a minute at most.
func (e *Engine) Tend(ctx context.Context, limit time.Duration) {
	look := time.NewTicker(min(max(limit/looksInLimit, shortestLook), longestLook))
	defer look.Stop()
	for {
		select {
		case <-look.C:
			e.CloseIdle(limit, ReasonIdle)
		case <-ctx.Done():
			return
		}
	}
}

// CloseIdle closes each session that has been idle for limit, and reports it as lost
// for the reason. A session is idle while no call waits or runs in it and nobody reads
// it, no process is left in it but its own, and that one has used no processor time
// between two looks. It is not closed when a caller asked to keep it, nor while this
// node may not serve sessions. CloseIdle gives how many it has closed.
func (e *Engine) CloseIdle(limit time.Duration, reason string) (closed int) {
	e.idling.Lock()
	defer e.idling.Unlock()
	for _, s := range e.unused() {
		s.look()
		if !e.abandon(s, limit, reason) {
			continue
		}
		s.end(reason)
		closed++
		e.log.Info("a session was closed", "reason", reason, "actor", s.key.Actor, "language", s.key.Language, "session", s.key.ID, "epoch", s.epoch)
	}
	return closed
}

// unused lists the sessions that nobody uses now.
func (e *Engine) unused() []*session {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []*session
	for _, s := range e.sessions {
		if s.uses == 0 && !s.kept {
			list = append(list, s)
		}
	}
	return list
}

// abandon lets go of a session that has been idle for limit, unless somebody uses it.
// Whoever claims it is either here before, and it stays, or is told that it is gone.
func (e *Engine) abandon(s *session, limit time.Duration, reason string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	switch {
	case e.closed, e.suspension.on, !e.cfg.Serving():
		return false
	case s.uses > 0, s.kept, e.sessions[s.key] != s:
		return false
	case now.Sub(s.rested) < limit, now.Sub(s.stir.last) < limit:
		return false
	}
	if _, err := s.current(); err != nil {
		return false // it is gone for another reason already
	}
	delete(e.sessions, s.key)
	e.retired.add(s.key, epitaph{epoch: s.epoch, reason: reason, at: now})
	return true
}

// keep says whether the session stays however long it is idle.
func (s *session) keep(on bool) {
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	s.kept = on
}

// look notes whether something goes on in a session between its calls: a process that
// was left running, a thread or a task of its event loop.
func (s *session) look() {
	k, err := s.current()
	if err != nil || k == nil {
		return
	}
	pids, err := k.Group().Pids()
	if err != nil {
		s.engine.log.Warn("the processes of a session cannot be listed", "kernel", k.Process().Pid(), "error", err)
		s.stir.last = time.Now()
		return
	}
	var spent uint64
	others := false
	for _, pid := range pids {
		used, lives := processorTime(pid)
		spent += used
		others = others || lives && pid != k.Process().Pid()
	}
	if others || spent != s.stir.spent {
		s.stir.last = time.Now()
	}
	s.stir.spent = spent
}
