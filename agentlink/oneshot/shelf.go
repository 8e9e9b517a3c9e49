package oneshot

import (
	"errors"
	"sync"
	"time"
)

// shelfLimit is how long something may wait for a program that does not come. A machine
// on which nothing runs keeps nothing of ours.
const shelfLimit = 5 * time.Minute

// prepared is where a program can begin at once.
type prepared interface {
	comparable
	// settle returns when it is ready; kill ends the wait.
	settle() error
	kill()
	// dead says that it has ended while it waited.
	dead() bool
	// discard ends it, where nothing has run in it.
	discard() error
}

// shelf keeps what takes longer to make than most programs take to run: one of each kind.
// Its methods may be called at the same time.
type shelf[T prepared] struct {
	// idle is called, if it is there, when what has waited too long was put away.
	idle func()

	mu     sync.Mutex
	ready  map[string]T
	rest   map[string]*time.Timer // of those that are ready
	making map[string]*T          // nil until there is something to be settled
	closed bool
}

// take gives what waits, if it is alive.
func (s *shelf[T]) take(kind string) (it T, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if it, ok = s.ready[kind]; !ok {
		return it, false
	}
	s.clear(kind)
	if it.dead() {
		_ = it.discard() // somebody killed it, and what is left of it is only a folder
		return it, false
	}
	return it, true
}

// clear takes one off the shelf. s.mu is held.
func (s *shelf[T]) clear(kind string) {
	s.rest[kind].Stop()
	delete(s.ready, kind)
	delete(s.rest, kind)
}

// fill puts one of a kind on the shelf if there is none, and returns when it is ready.
func (s *shelf[T]) fill(kind string, make func() (T, error)) error {
	if !s.wants(kind) {
		return nil
	}
	it, err := make()
	if err == nil && s.makes(kind, &it) {
		err = it.settle()
	}
	return s.made(kind, it, err)
}

// wants takes it on to make one of a kind, if there is none.
func (s *shelf[T]) wants(kind string) bool {
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

// makes lets close end what does not become ready; false when it is closed already.
func (s *shelf[T]) makes(kind string, it *T) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.making[kind] = it
	return !s.closed
}

func (s *shelf[T]) made(kind string, it T, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	begun := s.making[kind] != nil
	delete(s.making, kind)
	switch {
	case !begun:
		return err
	case s.closed:
		return it.discard() // why it is not ready is clear then
	case err != nil:
		return errors.Join(err, it.discard())
	}
	s.ready[kind] = it
	s.rest[kind] = time.AfterFunc(shelfLimit, func() { s.retire(kind, it) })
	return nil
}

// retire ends what has waited for too long.
func (s *shelf[T]) retire(kind string, it T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready[kind] != it {
		return
	}
	s.clear(kind)
	_ = it.discard() // nothing has run in it
	if s.idle != nil {
		s.idle()
	}
}

func (s *shelf[T]) close() error {
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
		s.clear(kind)
		errs = append(errs, it.discard())
	}
	return errors.Join(errs...)
}
