package registry

import (
	"context"
	"log/slog"
	"sync"

	"github.com/hashicorp/raft"
)

// leadership follows whether this node leads. raft says so before the new leader
// has applied what earlier ones committed; here it counts only after a barrier.
type leadership struct {
	notify chan bool // filled by raft, which stops when nobody drains it
	done   chan struct{}
	ended  chan struct{}

	mu      sync.Mutex
	leading bool
	changed chan struct{}
}

func newLeadership() *leadership {
	return &leadership{
		notify: make(chan bool, 8), done: make(chan struct{}), ended: make(chan struct{}),
		changed: make(chan struct{}),
	}
}

// follow drains the notifications until stop.
func (l *leadership) follow(r *raft.Raft, log *slog.Logger) {
	defer close(l.ended)
	for {
		select {
		case leads := <-l.notify:
			if leads {
				if err := r.Barrier(enqueueTimeout).Error(); err != nil {
					log.Warn("lost the lead before catching up", "error", err)
					leads = false
				}
			}
			l.set(leads)
		case <-l.done:
			return
		}
	}
}

func (l *leadership) set(leads bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leading = leads
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *leadership) is() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leading
}

func (l *leadership) await(ctx context.Context) error {
	for {
		l.mu.Lock()
		leading, changed := l.leading, l.changed
		l.mu.Unlock()
		if leading {
			return nil
		}
		select {
		case <-changed:
		case <-l.done:
			return ErrUnavailable
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// stop ends follow and waits for it. It is called once, after raft has stopped.
func (l *leadership) stop() {
	close(l.done)
	<-l.ended
	l.set(false)
}
