package agentlink

import (
	"sync"
	"time"
)

// lastLook is the part of heartbeatTimeout in which a node reads what a machine may have
// sent while the node itself stood still.
const lastLook = time.Second

// silence ends the connection of a machine from which nothing was read for
// heartbeatTimeout. One timer alone would end all connections of a node that was stopped
// or had no processor for so long: it fires before what waits in the socket is read.
type silence struct {
	end func()

	mu      sync.Mutex
	timer   *time.Timer
	heardAt time.Time
	looked  bool // once, since something was heard
}

func newSilence(end func()) *silence {
	s := &silence{end: end, heardAt: time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(heartbeatTimeout-lastLook, s.look)
	return s
}

// heard notes a sign of life.
func (s *silence) heard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heardAt, s.looked = time.Now(), false
	s.timer.Reset(heartbeatTimeout - lastLook)
}

func (s *silence) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case time.Since(s.heardAt) < heartbeatTimeout-lastLook: // heard while this look began
	case !s.looked:
		s.looked = true
		s.timer.Reset(lastLook)
	default:
		s.end()
	}
}

func (s *silence) stop() { s.timer.Stop() }
