package registry

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/hashicorp/raft"
)

// leadership follows whether this node leads, and which node does. raft says that
// a node leads before it has applied what earlier leaders committed; here it
// counts only after a barrier, once per term.
type leadership struct {
	notify   chan bool             // filled by raft, which stops when nobody drains it
	observed chan raft.Observation // a wake-up; what it says is looked up anew
	done     chan struct{}
	ended    chan struct{}

	mu      sync.Mutex
	ready   readiness
	changed chan struct{}
}

// readiness is the term in which this node leads, and the index of the barrier
// that began it. The zero value is not leading.
type readiness struct{ term, barrier uint64 }

// errLeadLost is why what a leader does ends.
var errLeadLost = errors.New("registry: the lead is lost")

func newLeadership() *leadership {
	return &leadership{
		notify: make(chan bool, 8), observed: make(chan raft.Observation, 1),
		done: make(chan struct{}), ended: make(chan struct{}), changed: make(chan struct{}),
	}
}

// observer wakes follow when another leader is known. A full channel means that
// it will wake anyway.
func (l *leadership) observer() *raft.Observer {
	return raft.NewObserver(l.observed, false, func(o *raft.Observation) bool {
		_, leader := o.Data.(raft.LeaderObservation)
		return leader
	})
}

// follow drains the notifications until stop. While this node leads, reign runs;
// its context ends with the lead.
func (l *leadership) follow(r *raft.Raft, log *slog.Logger, reign func(context.Context)) {
	defer close(l.ended)
	over := func() {} // ends the present reign and waits for its end
	defer func() { over() }()
	for {
		select {
		case leads := <-l.notify:
			over()
			over = func() {}
			l.set(readiness{})
			if !leads {
				continue
			}
			ready, err := caughtUp(r)
			if err != nil {
				log.Warn("lost the lead before catching up", "error", err)
				continue
			}
			l.set(ready)
			over = begin(reign)
		case <-l.observed:
			l.wake()
		case <-l.done:
			return
		}
	}
}

// begin runs a reign and gives what ends it.
func begin(reign func(context.Context)) (over func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	var running sync.WaitGroup
	running.Go(func() { reign(ctx) })
	return func() {
		cancel(errLeadLost)
		running.Wait()
	}
}

// caughtUp waits until a new leader has applied all that was committed before.
func caughtUp(r *raft.Raft) (readiness, error) {
	term := r.CurrentTerm()
	// Without a bound: raft answers when the lead is lost. Who gave up for a slow disk would
	// lead without knowing, and nobody could do anything until somebody else is elected.
	barrier := r.Barrier(0)
	if err := barrier.Error(); err != nil {
		return readiness{}, err
	}
	if r.CurrentTerm() != term {
		return readiness{}, errLeadLost
	}
	return readiness{term: term, barrier: barrier.(raft.IndexFuture).Index()}, nil
}

func (l *leadership) set(to readiness) {
	l.mu.Lock()
	l.ready = to
	l.mu.Unlock()
	l.wake()
}

func (l *leadership) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
}

// state gives the readiness, and a channel that is closed when it, or the leader
// that is known, may have changed.
func (l *leadership) state() (readiness, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ready, l.changed
}

func (l *leadership) is() bool {
	ready, _ := l.state()
	return ready.term != 0
}

// await waits until a condition holds that changes with the leadership.
func (l *leadership) await(ctx context.Context, until func() bool) error {
	for {
		_, changed := l.state()
		if until() {
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
	l.set(readiness{})
}
