package calls

import (
	"maps"
	"slices"
	"sync"
)

// children are the calls that the code of a call has made and that have not ended.
type children struct {
	mu      sync.Mutex
	running map[string]*Record
	held    bool
}

// Adopt notes a call that the code of this one makes, and reports whether this one is
// paused, as the child is to be then. The child is let go of by Disown.
func (r *Record) Adopt(child *Record) (paused bool) {
	r.children.mu.Lock()
	defer r.children.mu.Unlock()
	if r.children.running == nil {
		r.children.running = make(map[string]*Record)
	}
	r.children.running[child.ID] = child
	return r.children.held
}

// Disown forgets a child, which has ended.
func (r *Record) Disown(child *Record) {
	r.children.mu.Lock()
	defer r.children.mu.Unlock()
	delete(r.children.running, child.ID)
}

// Hold notes whether the call is paused.
func (r *Record) Hold(paused bool) {
	r.children.mu.Lock()
	defer r.children.mu.Unlock()
	r.children.held = paused
}

// Held reports what Hold has noted last.
func (r *Record) Held() bool {
	r.children.mu.Lock()
	defer r.children.mu.Unlock()
	return r.children.held
}

// Children gives the calls that the code has made and that have not ended.
func (r *Record) Children() []*Record {
	r.children.mu.Lock()
	defer r.children.mu.Unlock()
	return slices.Collect(maps.Values(r.children.running))
}
