package oneshot

import (
	"errors"
	"sync"
	"time"
)

// poolIdleLimit is how long a prepared place waits for a program. Afterwards it is
// discarded, so that an idle machine runs nothing of the agent's.
const poolIdleLimit = 5 * time.Minute

// prepared is a place where a program can start at once.
type prepared interface {
	comparable
	// awaitReady returns when it is ready. kill ends the wait.
	awaitReady() error
	kill()
	// exited reports whether it has ended while it waited.
	exited() bool
	// discard kills and removes it; no program has run in it.
	discard() error
}

// pool keeps one prepared place of each kind, because making one takes longer than most
// programs run. Its methods are safe for concurrent use.
type pool[T prepared] struct {
	// idle, if set, is called after a prepared place was discarded as idle.
	idle func()

	mu     sync.Mutex
	ready  map[string]T           // by key: a place that waits for its program
	rest   map[string]*time.Timer // idle timers of those that are ready
	making map[string]*T          // nil until there is something to kill
	closed bool
}

// take returns the prepared place of a kind, if there is one and it is alive.
func (s *pool[T]) take(kind string) (it T, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if it, ok = s.ready[kind]; !ok {
		return it, false
	}
	s.unlist(kind)
	if it.exited() {
		_ = it.discard() // it was killed; only its folder is left
		return it, false
	}
	return it, true
}

// unlist removes a place from the pool. s.mu is held.
func (s *pool[T]) unlist(kind string) {
	s.rest[kind].Stop()
	delete(s.ready, kind)
	delete(s.rest, kind)
}

// fill prepares a place of a kind if there is none, and returns when it is ready.
func (s *pool[T]) fill(kind string, make func() (T, error)) error {
	if !s.reserve(kind) {
		return nil
	}
	it, err := make()
	if err == nil && s.setMaking(kind, &it) {
		err = it.awaitReady()
	}
	return s.made(kind, it, err)
}

// reserve returns true if the caller must prepare a place of the kind.
func (s *pool[T]) reserve(kind string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ready := s.ready[kind]
	_, making := s.making[kind]
	if s.closed || ready || making {
		return false
	}
	if s.ready == nil {
		s.ready, s.rest, s.making = map[string]T{}, map[string]*time.Timer{}, map[string]*T{}
	}
	s.making[kind] = nil
	return true
}

// setMaking makes close kill a place that is being prepared. It returns false if the pool
// is closed.
func (s *pool[T]) setMaking(kind string, it *T) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.making[kind] = it
	return !s.closed
}

func (s *pool[T]) made(kind string, it T, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	begun := s.making[kind] != nil
	delete(s.making, kind)
	switch {
	case !begun:
		return err
	case s.closed:
		return it.discard() // it was killed by close
	case err != nil:
		return errors.Join(err, it.discard())
	}
	s.ready[kind] = it
	s.rest[kind] = time.AfterFunc(poolIdleLimit, func() { s.expire(kind, it) })
	return nil
}

// expire discards a place that has waited too long.
func (s *pool[T]) expire(kind string, it T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready[kind] != it {
		return
	}
	s.unlist(kind)
	_ = it.discard() // nothing has run in it
	if s.idle != nil {
		s.idle()
	}
}

func (s *pool[T]) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, it := range s.making {
		if it != nil {
			(*it).kill()
		}
	}
	var errs []error
	for kind, it := range s.ready {
		s.unlist(kind)
		errs = append(errs, it.discard())
	}
	return errors.Join(errs...)
}
