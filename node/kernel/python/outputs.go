package python

import (
	"os"
	"sync"

	"github.com/locusrun/locus/node/kernel"
)

// maxLate is how many finished calls of one kernel can have writers left at once.
// Beyond that the oldest call's capture is closed, and its writers get EPIPE.
const maxLate = 64

// outputs keeps the captures of one kernel: the current one, and those of earlier
// calls that left a writer behind.
type outputs struct {
	current *kernel.Capture
	// shared is true if an earlier call's threads or processes may still write to the
	// current capture.
	shared bool

	mu     sync.Mutex
	late   []*kernel.Capture
	closed bool
}

// renew replaces a shared capture by a new one and returns the new write ends. The old
// one is read until its last writer has ended.
func (o *outputs) renew(begin func(func()) bool) ([]*os.File, error) {
	fresh, stdout, stderr, err := kernel.NewCapture()
	if err != nil {
		return nil, err
	}
	old := o.current
	o.current, o.shared = fresh, false
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || !begin(func() { <-old.Ended(); o.forget(old) }) {
		old.Close()
		return []*os.File{stdout, stderr}, nil
	}
	o.late = append(o.late, old)
	if len(o.late) > maxLate {
		oldest := o.late[0]
		o.late = o.late[1:]
		oldest.Close()
	}
	return []*os.File{stdout, stderr}, nil
}

func (o *outputs) forget(c *kernel.Capture) {
	c.Close()
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, l := range o.late {
		if l == c {
			o.late = append(o.late[:i], o.late[i+1:]...)
			return
		}
	}
}

// drain passes on all output that is available now.
func (o *outputs) drain() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.late {
		c.Drain()
	}
	o.current.Drain()
}

// close ends all captures.
func (o *outputs) close() {
	o.mu.Lock()
	o.closed = true
	late := append(o.late, o.current)
	o.late = nil
	o.mu.Unlock()
	for _, c := range late {
		c.Drain()
		c.Close()
	}
}
