package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/surfaces"
)

// SessionStatus describes a session of the engine.
type SessionStatus struct {
	Epoch uint64
	// Busy says that a call runs; calls that only wait do not count.
	Busy bool
	// Calls counts the programs that were started in the session.
	Calls    int64
	LastUsed time.Time
	// MemoryBytes is the private memory of the session's own process; 0 before its first
	// call.
	MemoryBytes int64
}

// Sessions returns the sessions of an actor.
func (e *Engine) Sessions(actor string) map[surfaces.SessionKey]SessionStatus {
	e.mu.Lock()
	var all []*session
	for key, s := range e.sessions {
		if key.Actor == actor {
			all = append(all, s)
		}
	}
	e.mu.Unlock()
	status := make(map[surfaces.SessionKey]SessionStatus, len(all))
	for _, s := range all {
		s.mu.Lock()
		st := SessionStatus{Epoch: s.epoch, Busy: s.busy != "", Calls: s.calls, LastUsed: s.lastUsed}
		k, gone := s.kernel, s.gone
		s.mu.Unlock()
		if gone {
			continue
		}
		if k != nil {
			st.MemoryBytes = ownMemory(k.Process().Pid())
		}
		status[s.key] = st
	}
	return status
}

// Epochs returns the epochs of all sessions of this engine.
func (e *Engine) Epochs() map[surfaces.SessionKey]uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	held := make(map[surfaces.SessionKey]uint64, len(e.sessions))
	for key, s := range e.sessions {
		held[key] = s.epoch
	}
	return held
}

// LastUsed returns when a session was last used; zero if the engine does not have it.
func (e *Engine) LastUsed(key surfaces.SessionKey) time.Time {
	e.mu.Lock()
	s := e.sessions[key]
	e.mu.Unlock()
	if s == nil {
		return time.Time{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastUsed
}

// ownMemory returns the private resident memory of a process in bytes, without pages that
// it shares with libraries or with the process it was forked from. It returns 0 if that
// cannot be read.
func ownMemory(pid int) int64 {
	rollup, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		return 0
	}
	var total int64
	for line := range strings.Lines(string(rollup)) {
		name, rest, _ := strings.Cut(line, ":")
		if name != "Private_Clean" && name != "Private_Dirty" {
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			continue
		}
		if kib, err := strconv.ParseInt(fields[0], 10, 64); err == nil {
			total += kib << 10
		}
	}
	return total
}

// LoseSession ends a session that this node no longer owns.
func (e *Engine) LoseSession(key surfaces.SessionKey, epoch uint64) {
	e.endSession(key, epoch, reasonFenced)
}

// CloseSession ends a session on purpose, with everything that it started. All its
// processes have ended when it returns, even if the session was closed before.
func (e *Engine) CloseSession(key surfaces.SessionKey, epoch uint64) { e.endSession(key, epoch, "") }

func (e *Engine) endSession(key surfaces.SessionKey, epoch uint64, reason string) {
	e.mu.Lock()
	s := e.sessions[key]
	if s == nil {
		// The session was never used here. Make sure that it never will be.
		e.retired.add(key, retiredSession{epoch: epoch, at: time.Now(), reason: reason})
	}
	e.mu.Unlock()
	if s == nil || s.epoch != epoch {
		return
	}
	s.finish(reason, false)
	s.mu.Lock()
	k := s.kernel
	s.mu.Unlock()
	if k != nil {
		k.Kill() // also waits for a kill in progress
	}
	e.retire([]*session{s})
}

// managementError returns the refusal for an error of a management operation on a session.
// Internal errors stay as they are.
func (e *Engine) managementError(err error) error {
	var gone *goneError
	var died *kernel.Died
	var stale *staleError
	switch {
	case isClosed(err):
		return &surfaces.Refusal{Code: surfaces.CodeSessionNotFound, Message: "the session was closed meanwhile", Suggestion: "See list_sessions for those that there are."}
	case errors.As(err, &gone):
		return &surfaces.Refusal{Code: surfaces.CodeSessionLost, Message: "the session's state is gone: " + gone.loss.Reason, Suggestion: "A stateful call makes it anew."}
	case errors.As(err, &died):
		return &surfaces.Refusal{Code: surfaces.CodeKilled, Message: "code of the session ended the process that performed the operation: it " + died.Exit.String()}
	case errors.As(err, &stale):
		return &surfaces.Refusal{Code: surfaces.CodeOwnerUnreachable, Message: "the session has changed hands meanwhile; nothing was done", RetryAfterS: 0.1}
	case errors.Is(err, errNotServing):
		return &surfaces.Refusal{Code: surfaces.CodeOwnerUnreachable, Message: err.Error() + "; nothing was done", RetryAfterS: 1}
	case errors.Is(err, errClosing):
		return &surfaces.Refusal{Code: surfaces.CodeNoCapacity, Message: "this node is shutting down; nothing was done"}
	case errors.Is(err, context.DeadlineExceeded):
		e.log.Info("an operation on a session timed out", "error", err)
		return &surfaces.Refusal{Code: surfaces.CodeOwnerUnreachable, Message: "the session did not get to it in time: its process does not answer, or earlier calls take longer", Suggestion: "Wait, or end the session with close_session.", RetryAfterS: 5}
	}
	return err
}

// ResetSession empties a session, after the calls before it. The epoch stays the same.
func (e *Engine) ResetSession(ctx context.Context, key surfaces.SessionKey, epoch uint64) (err error) {
	defer func() { err = e.managementError(err) }()
	s, err := e.claim(key, epoch)
	if err != nil {
		return err
	}
	defer s.release()
	if err := s.wait(ctx); err != nil {
		return err
	}
	defer s.leave()
	k, err := e.start(ctx, key, kernel.Session, nil)
	if err != nil {
		return err
	}
	s.keep(false)
	return s.swap(k)
}

// ForkSession creates a second session, under its own key and epoch, as a copy of the
// first. The notices say what could not be copied.
func (e *Engine) ForkSession(ctx context.Context, from surfaces.SessionKey, fromEpoch uint64, to surfaces.SessionKey, toEpoch uint64) (_ []surfaces.Notice, err error) {
	defer func() { err = e.managementError(err) }()
	s, err := e.claim(from, fromEpoch)
	if err != nil {
		return nil, err
	}
	defer s.release()
	if full := e.cfg.Room(kernel.Session); full != nil {
		return nil, full
	}
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	k, err := s.ready(ctx, nil)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, forkLimit(from.Language))
	defer cancel()
	c, notices, err := k.Fork(limited, kernel.Session, e.nextName("session"))
	if err != nil {
		return nil, e.forkError(ctx, err)
	}
	second, err := e.claim(to, toEpoch)
	if err != nil {
		c.Kill()
		return nil, err
	}
	defer second.release()
	return notices, second.adopt(c)
}

// InspectLimit bounds how long an inspection may take.
const InspectLimit = kernel.CopyLimit + 5*time.Second

// Inspect describes the state of a session. It runs in a copy, because it may run code of
// the session.
func (e *Engine) Inspect(ctx context.Context, key surfaces.SessionKey, epoch uint64, detail kernel.Detail) (_ kernel.State, err error) {
	defer func() { err = e.managementError(err) }()
	ctx, cancel := context.WithTimeoutCause(ctx, InspectLimit, &surfaces.Refusal{
		Code: surfaces.CodeTimeout, Message: fmt.Sprintf("the session could not be described within %s; code of its own may take that long", InspectLimit),
		Suggestion: "Set detail to names, or read what is wanted with a read_only call.",
	})
	defer cancel()
	s, err := e.claim(key, epoch)
	if err != nil {
		return kernel.State{}, err
	}
	defer s.release()
	if err := s.ensureStarted(ctx); err != nil {
		return kernel.State{}, err
	}
	c, _, err := s.copy(ctx)
	if err != nil {
		return kernel.State{}, err
	}
	defer c.Kill()
	state, err := c.Inspect(ctx, detail)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return state, err
}

// EndActor ends every session of an actor.
func (e *Engine) EndActor(actor string) {
	e.mu.Lock()
	var ended []*session
	for key, s := range e.sessions {
		if key.Actor == actor {
			ended = append(ended, s)
		}
	}
	e.mu.Unlock()
	for _, s := range ended {
		s.end("")
	}
	e.retire(ended)
}
