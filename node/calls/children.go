package calls

import (
	"maps"
	"slices"
	"sync"
)

// children are the running calls that the code of a call has made.
type children struct {
	mu      sync.Mutex
	running map[string]*Record // by call id
	held    bool               // the call is paused, so a new child has to be paused too
}

// AddChild adds a call that the code of this one makes, and reports whether this one is paused;
// the child has to be paused then too. RemoveChild removes it.
func (r *Record) AddChild(child *Record) (paused bool) {
	r.children.mu.Lock()
	defer r.children.mu.Unlock()
	if r.children.running == nil {
		r.children.running = make(map[string]*Record)
	}
	r.children.running[child.ID] = child
	return r.children.held
}

// RemoveChild removes a child that has ended.
func (r *Record) RemoveChild(child *Record) {
	r.children.mu.Lock()
	defer r.children.mu.Unlock()
	delete(r.children.running, child.ID)
}

// SetPaused records whether the call is paused.
func (r *Record) SetPaused(paused bool) {
	r.children.mu.Lock()
	defer r.children.mu.Unlock()
	r.children.held = paused
}

// Paused reports whether the call is paused, as recorded by SetPaused.
func (r *Record) Paused() bool {
	r.children.mu.Lock()
	defer r.children.mu.Unlock()
	return r.children.held
}

// Children returns the running calls that the code has made.
func (r *Record) Children() []*Record {
	r.children.mu.Lock()
	defer r.children.mu.Unlock()
	return slices.Collect(maps.Values(r.children.running))
}
