package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/surfaces"
)

// session is one kept kernel under one epoch. When its process dies the session
// is over; a later epoch gets a session of its own.
type session struct {
	key     surfaces.SessionKey
	epoch   uint64
	engine  *Engine
	created time.Time
	line    line

	mu       sync.Mutex
	kernel   kernel.Kernel // nil until the first call
	guarded  bool          // a checkpoint stands by, so that the session outlives its kernel
	gone     bool
	reason   string // why it is gone; empty when it was closed on purpose
	goneAt   time.Time
	calls    int64
	lastUsed time.Time
	busy     string        // the call that runs
	running  chan struct{} // closed when it has ended; nil when none runs
	expected string        // the reason, should the process end under this call: why the call is made to end; empty when it is not

	clearing sync.Mutex    // held while what a call has left running is killed
	swept    chan struct{} // closed by the next time that has been done; guarded by clearing

	// For whoever has the turn:
	jobs  []int // processes that earlier calls left running
	alone bool  // there are surely none, so nobody has to look for them

	// Guarded by the engine's mu:
	uses   int       // who has claimed the session and not released it
	rested time.Time // when the last of them released it
	kept   bool      // it is not closed for being idle

	stir stir // guarded by the engine's idling
}

// goneError says that a session's process is gone.
type goneError struct{ loss surfaces.LostAttempt }

func (g *goneError) Error() string { return "the session's process is gone: " + g.loss.Reason }

// isClosed reports whether an error says that the session was closed on purpose.
func isClosed(err error) bool {
	var gone *goneError
	return errors.As(err, &gone) && gone.loss.Reason == reasonClosed
}

// claim gives the session of a key at an epoch, making it when this is the first
// that this engine hears of it. A session of an older epoch is ended. The caller
// releases what it was given; until then the session is not idle. The error is a
// *staleError when this engine knows a newer epoch, and a *goneError when it has let
// go of this one.
func (e *Engine) claim(key surfaces.SessionKey, epoch uint64) (*session, error) {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil, errClosing
	}
	old := e.sessions[key]
	if old != nil && old.epoch == epoch {
		old.uses++
		e.mu.Unlock()
		return old, nil
	}
	if old != nil && old.epoch > epoch {
		e.mu.Unlock()
		return nil, &staleError{key: key, asked: epoch, known: old.epoch}
	}
	if err := e.retired.refuse(key, epoch); err != nil {
		e.mu.Unlock()
		return nil, err
	}
	now := time.Now()
	s := &session{
		key: key, epoch: epoch, engine: e, created: now, lastUsed: now, alone: true, uses: 1, rested: now,
		swept: make(chan struct{}),
	}
	e.sessions[key] = s
	e.mu.Unlock()
	if old != nil {
		old.finish(reasonFenced, false) // whoever claims anew knows that it is over
	}
	return s, nil
}

// hold lets whoever has claimed the session use it beyond its own release.
func (s *session) hold() {
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	s.uses++
}

// release gives back a claim or a hold.
func (s *session) release() {
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	s.uses--
	s.rested = time.Now()
}

type staleError struct {
	key          surfaces.SessionKey
	asked, known uint64
}

func (s *staleError) Error() string {
	return fmt.Sprintf("session %s %d was asked for under epoch %d, and is at epoch %d", s.key.Language, s.key.ID, s.asked, s.known)
}

// wait takes the session's turn, after those who came before.
func (s *session) wait(ctx context.Context) error {
	turn, err := s.line.join()
	if err != nil {
		return err
	}
	return s.line.await(ctx, turn)
}

func (s *session) leave() { s.line.leave() }

// settle passes the turn on, once it has listed what the call left running: a later
// call's deadline spares that. The caller's answer does not wait for the list, but the
// next call does, so it is made only where there may be something on it.
func (s *session) settle() {
	k, err := s.current()
	if err != nil || k == nil || s.alone {
		s.jobs = nil
		s.leave()
		return
	}
	s.hold()
	list := func() {
		defer s.release()
		defer s.leave()
		jobs, err := k.Group().Pids()
		if err != nil {
			s.engine.log.Warn("the processes of a session cannot be listed", "kernel", k.Process().Pid(), "error", err)
		}
		s.jobs, s.alone = jobs, err == nil && len(jobs) <= 1 // the kernel's own process
	}
	if !s.engine.goes(list) {
		list()
	}
}

// ready gives the session's kernel, starting it for the first call. The caller
// has the turn; say takes progress and may be nil.
func (s *session) ready(ctx context.Context, say func(line string)) (kernel.Kernel, error) {
	s.mu.Lock()
	k, gone := s.kernel, s.gone
	s.mu.Unlock()
	if gone {
		return nil, s.loss()
	}
	if k != nil {
		return k, nil
	}
	if full := s.engine.cfg.Room(kernel.Session); full != nil {
		return nil, full
	}
	k, err := s.engine.start(ctx, s.key, kernel.Session, say)
	if err != nil {
		return nil, err
	}
	return k, s.adopt(k)
}

// current gives the session's kernel; nil before the first call.
func (s *session) current() (kernel.Kernel, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return nil, s.lossLocked()
	}
	return s.kernel, nil
}

// adopt makes k the session's kernel and watches over it.
func (s *session) adopt(k kernel.Kernel) error {
	s.mu.Lock()
	if s.gone {
		defer s.mu.Unlock()
		k.Kill()
		return s.lossLocked()
	}
	s.kernel = k
	s.engine.watches.Add(1)
	s.mu.Unlock()
	go s.watch(k)
	return nil
}

// watch notices at once when the session's process dies.
func (s *session) watch(k kernel.Kernel) {
	defer s.engine.watches.Done()
	p := k.Process()
	for s.outlived(p); k.Process() != p; s.outlived(p) {
		p = k.Process() // the kernel went on in another one
	}
	s.mu.Lock()
	over := s.kernel == k && !s.guarded
	s.mu.Unlock()
	if over {
		s.end(s.reasonOf(p.Exit()))
	}
}

// outlived waits for the end of a process and of the call that runs in it. Only then is it
// known whether the kernel goes on in another process.
func (s *session) outlived(p *sandbox.Process) {
	<-p.Done()
	s.mu.Lock()
	running := s.running
	s.mu.Unlock()
	if running != nil {
		<-running
	}
}

// expect says why the call that runs is made to end, and so why the session's process
// ends if that is more than the process survives.
func (s *session) expect(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expected = reason
}

// reasonOf says why a process of the session's has ended.
func (s *session) reasonOf(exit sandbox.Exit) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case exit.OOM:
		return reasonOOM
	case s.expected != "":
		return s.expected
	}
	return reasonDied
}

// end kills the session's process, if it is alive, and marks the session gone.
// The first reason stands; with one, the loss is reported. The empty reason is an
// end on purpose.
func (s *session) end(reason string) { s.finish(reason, reason != "") }

func (s *session) finish(reason string, report bool) {
	s.mu.Lock()
	if s.gone {
		s.mu.Unlock()
		return
	}
	s.gone, s.reason, s.goneAt = true, reason, time.Now()
	k := s.kernel
	s.mu.Unlock()
	if k != nil {
		k.Kill()
	}
	if report && s.engine.cfg.Lost != nil {
		s.engine.cfg.Lost(LostSession{Key: s.key, Epoch: s.epoch, Reason: reason, At: s.goneAt})
	}
}

// guard says that a checkpoint stands by for the kernel.
func (s *session) guard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.guarded = true
}

// unguard says that the kernel is on its own again.
func (s *session) unguard(k kernel.Kernel) {
	s.mu.Lock()
	s.guarded = false
	s.mu.Unlock()
	p := k.Process()
	select {
	case <-p.Done():
		s.end(s.reasonOf(p.Exit()))
	default:
	}
}

// swap puts another kernel in the place of the session's, which is killed.
func (s *session) swap(k kernel.Kernel) error {
	s.mu.Lock()
	old := s.kernel
	s.guarded = false
	s.mu.Unlock()
	err := s.adopt(k)
	if old != nil {
		old.Kill()
	}
	return err
}

func (s *session) loss() *goneError {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lossLocked()
}

func (s *session) lossLocked() *goneError {
	reason := s.reason
	if reason == "" {
		reason = reasonClosed
	}
	return &goneError{surfaces.LostAttempt{Before: true, Reason: reason, At: s.goneAt, Epoch: s.epoch}}
}

func (s *session) begin(callID string) (number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	s.lastUsed, s.busy, s.running = time.Now(), callID, make(chan struct{})
	return int(s.calls)
}

func (s *session) idle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.running)
	s.lastUsed, s.busy, s.expected, s.running = time.Now(), "", "", nil
}

// start makes a kernel for a session or a one-shot.
func (e *Engine) start(ctx context.Context, key surfaces.SessionKey, kind kernel.Kind, say func(line string)) (kernel.Kernel, error) {
	what := "once"
	if kind == kernel.Session {
		what = "session"
	}
	return e.cfg.Kernels.Start(ctx, Want{Key: key, Kind: kind, Name: e.nextName(what), Say: say})
}
