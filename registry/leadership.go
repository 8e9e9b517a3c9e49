package registry

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/hashicorp/raft"
)

// leadership tracks whether this node is the leader, and which node is. raft reports a
// node as leader before it has applied what earlier leaders committed. Here it counts as
// leader only after a barrier, once per term.
type leadership struct {
	notify   chan bool             // filled by raft, which blocks when it is not drained
	observed chan raft.Observation // only a wake-up; its content is ignored
	done     chan struct{}         // closed to end the goroutine, which then closes ended
	ended    chan struct{}

	mu      sync.Mutex
	ready   readiness
	changed chan struct{} // closed at the next change of ready
}

// readiness is the term in which this node leads, and the log index of the barrier with
// which it began. The zero value means that this node does not lead.
type readiness struct{ term, barrier uint64 }

// errLeadLost is the cause with which the context of the leader's tasks is cancelled.
var errLeadLost = errors.New("registry: the leadership is lost")

func newLeadership() *leadership {
	return &leadership{
		notify: make(chan bool, 8), observed: make(chan raft.Observation, 1),
		done: make(chan struct{}), ended: make(chan struct{}), changed: make(chan struct{}),
	}
}

// observer wakes follow when the known leader changes. It may drop observations: if the
// channel is full, follow is about to wake anyway.
func (l *leadership) observer() *raft.Observer {
	return raft.NewObserver(l.observed, false, func(o *raft.Observation) bool {
		_, leader := o.Data.(raft.LeaderObservation)
		return leader
	})
}

// follow drains the notifications until stop. While this node leads, tasks runs; its
// context ends with the leadership.
func (l *leadership) follow(r *raft.Raft, log *slog.Logger, tasks func(context.Context)) {
	defer close(l.ended)
	end := func() {} // ends the running tasks and waits for them
	defer func() { end() }()
	for {
		select {
		case leads := <-l.notify:
			end()
			end = func() {}
			l.set(readiness{})
			if !leads {
				continue
			}
			ready, err := caughtUp(r)
			if err != nil {
				log.Warn("lost the leadership before catching up", "error", err)
				continue
			}
			l.set(ready)
			end = begin(tasks)
		case <-l.observed:
			l.wake()
		case <-l.done:
			return
		}
	}
}

// begin starts the tasks and returns a function that ends them and waits for them.
func begin(tasks func(context.Context)) (end func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	var running sync.WaitGroup
	running.Go(func() { tasks(ctx) })
	return func() {
		cancel(errLeadLost)
		running.Wait()
	}
}

// caughtUp waits until this new leader has applied everything that was committed before.
func caughtUp(r *raft.Raft) (readiness, error) {
	term := r.CurrentTerm()
	// No timeout: raft answers when the leadership is lost. If this node gave up because of
	// a slow disk, it would still be raft's leader but serve no request, and no other leader
	// would be elected.
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

// state returns the readiness, and a channel that is closed when the readiness or the known
// leader may have changed.
func (l *leadership) state() (readiness, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ready, l.changed
}

func (l *leadership) is() bool {
	ready, _ := l.state()
	return ready.term != 0
}

// await waits until a condition holds, checking it whenever the leadership changes.
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
