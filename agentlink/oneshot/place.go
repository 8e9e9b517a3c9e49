package oneshot

import (
	"errors"
	"sync"
	"time"
)

// place is where one program runs: a folder of its own, and what starts and ends it.
type place struct {
	*tree
	folder *folder
}

func newPlace(dir string) (*place, error) {
	f, err := newFolder(dir)
	if err != nil {
		return nil, err
	}
	t, err := newTree(newMark())
	if err != nil {
		return nil, errors.Join(err, f.remove())
	}
	return &place{tree: t, folder: f}, nil
}

// discard ends a place.
func (p *place) discard() error {
	p.kill()
	p.bury()
	return errors.Join(p.pipes.close(), p.folder.remove())
}

// spare keeps one place at hand: its supervisor, a process of this whole program, takes
// several times as long to start as a short program of a shell takes to run. It ends with
// the agent, however that ends, as every supervisor does.
type spare struct {
	mu     sync.Mutex
	ready  *place
	rest   *time.Timer
	closed bool
}

// take gives the place that waits, if its supervisor is alive.
func (s *spare) take() *place {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.ready
	if p == nil {
		return nil
	}
	s.ready = nil
	s.rest.Stop()
	select {
	case <-p.ended:
		_ = p.discard() // somebody killed it, and what is left of it is only a folder
		return nil
	default:
		return p
	}
}

// fill puts a place at hand if there is none.
func (s *spare) fill(dir string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.ready != nil {
		return nil
	}
	p, err := newPlace(dir)
	if err != nil {
		return err
	}
	s.ready = p
	s.rest = time.AfterFunc(benchLimit, func() { s.retire(p) })
	return nil
}

// retire ends a place that has waited for too long.
func (s *spare) retire(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready == p {
		s.ready = nil
		_ = p.discard() // nothing has run in it
	}
}

func (s *spare) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	p := s.ready
	if s.ready = nil; p == nil {
		return nil
	}
	s.rest.Stop()
	return p.discard()
}
