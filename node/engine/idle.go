package engine

import (
	"context"
	"slices"
	"time"

	"github.com/locusrun/locus/node/sandbox"
)

// Reasons for closing a session that works.
const (
	ReasonIdle     = "idle"
	ReasonPressure = "memory_pressure"
)

// Bounds on the interval at which ReapIdle checks for idle sessions.
const (
	checksPerLimit = 8
	minCheckEvery  = 10 * time.Millisecond
	maxCheckEvery  = 30 * time.Second
)

// activity is what the last check of a session's processes has found.
type activity struct {
	spent time.Duration // CPU time
	last  time.Time     // when a check last found activity
}

// ReapIdle closes each session that has been idle for limit, until ctx ends. It may be late by
// an eighth of limit, and by half a minute at most.
func (e *Engine) ReapIdle(ctx context.Context, limit time.Duration) {
	look := time.NewTicker(min(max(limit/checksPerLimit, minCheckEvery), maxCheckEvery))
	defer look.Stop()
	for {
		select {
		case <-look.C:
			e.CloseIdle(limit, ReasonIdle, nil)
		case <-ctx.Done():
			return
		}
	}
}

// CloseIdle closes the sessions that have been idle for limit, one after another, the longest
// idle first, and reports each as lost for the reason. Before each it asks enough, unless that
// is nil, whether it may stop. A session is idle while no call uses it or waits for it, it has
// no process but its own, and that one has used no CPU time between two checks. A session that
// a caller asked to keep is not closed, and none is closed while this node may not serve
// sessions. CloseIdle returns how many it has closed; their processes have ended.
func (e *Engine) CloseIdle(limit time.Duration, reason string, enough func() bool) (closed int) {
	e.idling.Lock()
	defer e.idling.Unlock()
	for _, s := range e.longestIdle() {
		if enough != nil && enough() {
			break
		}
		if !e.retireIdle(s, limit, reason) {
			continue
		}
		s.end(reason)
		closed++
		e.log.Info("a session was closed", "reason", reason, "actor", s.key.Actor, "language", s.key.Language, "session", s.key.ID, "epoch", s.epoch)
	}
	return closed
}

// longestIdle checks the sessions that no call uses for activity, and lists them by how long
// they have been idle. The list may be outdated at once: retireIdle decides.
func (e *Engine) longestIdle() []*session {
	list := e.unused()
	for _, s := range list {
		s.checkActivity()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	slices.SortFunc(list, func(a, b *session) int { return a.idleSince().Compare(b.idleSince()) })
	return list
}

// idleSince returns when the session was last in use or active. The engine's mu and idling
// are held.
func (s *session) idleSince() time.Time {
	if s.activity.last.After(s.rested) {
		return s.activity.last
	}
	return s.rested
}

// unused lists the sessions that no call uses.
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

// retireIdle removes a session that has been idle for limit, if no call uses it. A
// concurrent claim either comes first, and the session stays, or finds that it is gone.
func (e *Engine) retireIdle(s *session, limit time.Duration, reason string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	switch {
	case e.closed, e.suspension.on, !e.cfg.Serving():
		return false
	case s.uses > 0, s.kept, e.sessions[s.key] != s:
		return false
	case now.Sub(s.idleSince()) < limit:
		return false
	}
	if _, err := s.current(); err != nil {
		return false // it is gone for another reason
	}
	delete(e.sessions, s.key)
	e.retired.add(s.key, retiredSession{epoch: s.epoch, reason: reason, at: now})
	return true
}

// keep sets whether the session is exempt from closing when idle.
func (s *session) keep(on bool) {
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	s.kept = on
}

// checkActivity records whether the session is active between its calls: by another
// process, a thread, or a task of its event loop.
func (s *session) checkActivity() {
	k, err := s.current()
	if err != nil || k == nil {
		return
	}
	pids, err := k.Group().Pids()
	if err != nil {
		s.engine.log.Warn("the processes of a session cannot be listed", "kernel", k.Process().Pid(), "error", err)
		s.activity.last = time.Now()
		return
	}
	var spent time.Duration
	others := false
	for _, pid := range pids {
		stat, err := sandbox.ReadStat(pid)
		if err != nil {
			continue // it has ended
		}
		spent += stat.CPU
		others = others || !stat.Dead() && pid != k.Process().Pid()
	}
	if others || spent != s.activity.spent {
		s.activity.last = time.Now()
	}
	s.activity.spent = spent
}
