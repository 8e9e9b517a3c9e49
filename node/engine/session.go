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

// session is a kernel that is kept between calls, under one epoch. It ends with its
// process; a later epoch gets a new session.
type session struct {
	key     surfaces.SessionKey
	epoch   uint64
	engine  *Engine
	created time.Time
	queue   queue

	mu       sync.Mutex
	kernel   kernel.Kernel // nil until the first call
	guarded  bool          // a checkpoint exists, so the session survives the end of its kernel
	gone     bool          // final: a session that has ended never comes back
	reason   string        // why it is gone; empty if it was closed on purpose
	goneAt   time.Time
	calls    int64         // programs started so far; the last one's number
	lastUsed time.Time     // when a program last began or ended
	busy     string        // id of the call that runs
	running  chan struct{} // closed when the running call ends; nil if none runs
	expected string        // if the running call is being ended: the reason that is recorded if the session's process ends by it

	clearing sync.Mutex    // held while processes of an ended call are killed
	swept    chan struct{} // closed when that was done next; guarded by clearing

	// Used only by the holder of the turn:
	jobs  []int // processes that earlier calls left running
	alone bool  // there are certainly none

	// Guarded by the engine's mu:
	uses   int       // claims and holds that are not released yet
	rested time.Time // when the last of them was released
	kept   bool      // exempt from closing when idle

	activity activity // guarded by the engine's idling
}

// goneError says that a session has ended.
type goneError struct{ loss surfaces.LostAttempt }

func (g *goneError) Error() string { return "the session's process is gone: " + g.loss.Reason }

// isClosed reports whether an error says that the session was closed on purpose.
func isClosed(err error) bool {
	var gone *goneError
	return errors.As(err, &gone) && gone.loss.Reason == reasonClosed
}

// claim returns the session of a key at an epoch, and creates it if this engine does not
// know it. A session of an older epoch is ended. The caller must release the session; until
// then it is not idle. The error is a *staleError if the engine knows a newer epoch, and a
// *goneError if the session of this epoch has ended.
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
		old.finish(reasonFenced, false) // the newer epoch shows that the mesh knows it is lost
	}
	return s, nil
}

// hold extends a claim beyond its release.
func (s *session) hold() {
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	s.uses++
}

// release undoes a claim or a hold.
func (s *session) release() {
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	s.uses--
	s.rested = time.Now()
}

type staleError struct {
	key          surfaces.SessionKey
	asked, known uint64 // the epoch of the call, and the newer one of the engine
}

func (s *staleError) Error() string {
	return fmt.Sprintf("session %s %d was asked for under epoch %d, and is at epoch %d", s.key.Language, s.key.ID, s.asked, s.known)
}

// wait takes the session's turn, after earlier calls.
func (s *session) wait(ctx context.Context) error {
	turn, err := s.queue.join()
	if err != nil {
		return err
	}
	return s.queue.await(ctx, turn)
}

func (s *session) leave() { s.queue.leave() }

// releaseTurn lists the processes that the call left running, so that a later call's
// deadline spares them, and then passes the turn on. The caller's answer does not wait for
// the list, but the next call does; so it is made only if there may be such processes.
func (s *session) releaseTurn() {
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
		s.jobs, s.alone = jobs, err == nil && len(jobs) <= 1 // only the kernel's own process
	}
	if !s.engine.spawn(list) {
		list()
	}
}

// ready returns the session's kernel, and starts it for the first call, r, which may be nil.
// The caller must have the turn.
func (s *session) ready(ctx context.Context, r *Run) (kernel.Kernel, error) {
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
	k, err := s.engine.start(ctx, s.key, kernel.Session, r)
	if err != nil {
		return nil, err
	}
	return k, s.adopt(k)
}

// current returns the session's kernel; nil before the first call.
func (s *session) current() (kernel.Kernel, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return nil, s.lossLocked()
	}
	return s.kernel, nil
}

// adopt makes k the session's kernel and starts to watch it.
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

// watch ends the session when its process ends.
func (s *session) watch(k kernel.Kernel) {
	defer s.engine.watches.Done()
	p := k.Process()
	for s.outlived(p); k.Process() != p; s.outlived(p) {
		p = k.Process() // the kernel continues in another process
	}
	s.mu.Lock()
	over := s.kernel == k && !s.guarded
	s.mu.Unlock()
	if over {
		s.end(s.reasonOf(p.Exit()))
	}
}

// outlived waits for the end of a process and of the call that runs in it. Only then is it
// known whether the kernel continues in another process.
func (s *session) outlived(p *sandbox.Process) {
	<-p.Done()
	s.mu.Lock()
	running := s.running
	s.mu.Unlock()
	if running != nil {
		<-running
	}
}

// expect records why the running call is being ended. It is the reason for the session's
// loss if the process ends by it.
func (s *session) expect(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expected = reason
}

// reasonOf returns why the session's process has ended.
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

// end kills the session's process, if it is alive, and marks the session gone. The first
// reason counts. A non-empty reason is reported as a loss; an empty one means that the
// session was closed on purpose.
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

// guard records that a checkpoint exists.
func (s *session) guard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.guarded = true
}

// unguard records that there is no checkpoint any more.
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

// swap replaces the session's kernel and kills the old one.
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

// start starts a kernel for a session or a one-shot, for the call r, which may be nil.
func (e *Engine) start(ctx context.Context, key surfaces.SessionKey, kind kernel.Kind, r *Run) (kernel.Kernel, error) {
	w := Want{Key: key, Kind: kind, Name: e.nextName("once")}
	if kind == kernel.Session {
		w.Name = e.nextName("session")
	}
	if r != nil {
		w.Say, w.Hold = r.progress, r.clock.hold
	}
	k, err := e.cfg.Kernels.Start(ctx, w)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return k, err
}
