package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// LeaseState says whether a node may serve.
type LeaseState int32

const (
	// LeasePending: nothing was granted yet. Nothing may be served.
	LeasePending LeaseState = iota
	// LeaseHeld: the node may serve.
	LeaseHeld
	// LeaseEnding: the lease has run out but for the margin, or altogether. Nothing
	// may be started, and what runs is frozen. It may be renewed yet.
	LeaseEnding
	// LeaseOver: this life will never be granted a lease again.
	LeaseOver
)

// String gives the state in one word.
func (s LeaseState) String() string { return [...]string{"pending", "held", "ending", "over"}[s] }

// ErrFenced ends a lease whose life was declared over. The node must kill what it
// holds and register again.
var ErrFenced = errors.New("registry: this life of the node is over")

// LeaseEvents are called by the lease's goroutine, one after the other. Any may be
// nil.
type LeaseEvents struct {
	// Freeze is called when the margin begins. It has to stop everything that runs
	// in a session before the margin has passed. Valid is false already.
	Freeze func()
	// Granted is called with how long code may run at most from now on, unless it is
	// called again: beyond the begin of the margin, and not to its end. It is for who
	// stops the code when this process cannot.
	Granted func(time.Duration)
	// Thaw is called when a frozen node's lease was renewed in time: nothing was
	// lost. Valid becomes true afterwards.
	Thaw func()
	// Fenced is called last, when this life is over: its sessions are lost and may
	// be alive elsewhere.
	Fenced func(Incarnation)
	// Load is asked for what to report with a renewal.
	Load func() Load
}

// Lease is one life's right to serve. It is renewed with the leader, by a goroutine
// that ends with its context or when the life is over. All methods may be called
// at the same time.
type Lease struct {
	r      *Registry
	life   Incarnation
	on     LeaseEvents
	config LeaseConfig

	state atomic.Int32
	term  atomic.Pointer[leaseTerm]
	held  chan struct{} // closed when the first lease was granted
	done  chan struct{}
	err   error // set before done is closed
}

// leaseTerm is one grant. It counts from before its renewal was sent, so however
// long the answer took, it ends before the leader thinks so.
type leaseTerm struct {
	from   moments
	margin time.Duration
	ttl    time.Duration
}

// moments is now by two clocks: one that may stand still while the machine is
// suspended, and how long it has.
type moments struct {
	at     time.Time
	asleep time.Duration
}

func now() moments { return moments{time.Now(), asleep()} }

func (m moments) since() time.Duration { return time.Since(m.at) + max(0, asleep()-m.asleep) }

// left is how long the lease lasts yet, the margin not counted.
func (t *leaseTerm) left() time.Duration { return t.ttl - t.margin - t.from.since() }

// KeepLease keeps a lease for this node's present life, as RegisterNode gave it,
// until ctx ends. It returns at once; nothing is granted yet.
func (r *Registry) KeepLease(ctx context.Context, life Incarnation, on LeaseEvents) *Lease {
	l := &Lease{r: r, life: life, on: on, config: r.LeaseConfig(), held: make(chan struct{}), done: make(chan struct{})}
	go l.keep(ctx)
	return l
}

// Valid reports whether the node may serve at this moment. It is cheap; ask before
// every step that others can see. After a pause of the process it is the first
// thing that tells.
func (l *Lease) Valid() bool {
	t := l.term.Load()
	return t != nil && l.State() == LeaseHeld && t.left() > 0
}

// State gives what the lease's goroutine saw last. Valid is what to trust.
func (l *Lease) State() LeaseState { return LeaseState(l.state.Load()) }

// Life is the life that the lease is for.
func (l *Lease) Life() Incarnation { return l.life }

// Await waits until the lease was granted for the first time.
func (l *Lease) Await(ctx context.Context) error {
	select {
	case <-l.held:
		return nil
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Done is closed when the lease is kept no more.
func (l *Lease) Done() <-chan struct{} { return l.done }

// Err gives, after Done, why: ErrFenced, or the cause of the context.
func (l *Lease) Err() error {
	select {
	case <-l.done:
		return l.err
	default:
		return nil
	}
}

// Release gives the life up, so that nobody has to wait for its lease to run out.
// It must be called after Done, when nothing of the life serves any more.
func (l *Lease) Release(ctx context.Context) error {
	body, err := json.Marshal(renewal{ID: l.r.dir.owner, Life: l.life, Applied: l.r.View().Index(), Stopped: true})
	if err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	if a := l.r.renewWith(ctx, call{op: opRenew, body: body}); a.status != statusDone {
		return fmt.Errorf("registry: release the lease: status %d: %w", a.status, orNoQuorum(a.cause))
	}
	return nil
}

// keep renews the lease and tells of its states. A renewal runs beside it, so that
// one which hangs does not keep the node from freezing in time.
func (l *Lease) keep(ctx context.Context) {
	defer close(l.done)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan grant, 1)
	renewing := false
	next := time.Now()
	wake := time.NewTimer(0)
	defer wake.Stop()
	for {
		select {
		case <-ctx.Done():
			l.err = context.Cause(ctx)
			l.state.Store(int32(LeaseOver))
			if renewing {
				<-results
			}
			return
		case g := <-results:
			renewing = false
			next = l.take(g)
		case <-wake.C:
		}
		if l.isOver() {
			cancel()
			if renewing {
				<-results
			}
			l.fence()
			return
		}
		l.freeze()
		if !renewing && !time.Now().Before(next) {
			renewing = true
			go func() { results <- l.renew(ctx) }()
		}
		wake.Reset(l.sleep(next, renewing))
	}
}

// sleep is how long there is nothing to do. A woken machine is noticed soon even
// where timers stood still.
func (l *Lease) sleep(next time.Time, renewing bool) time.Duration {
	sleep := l.config.TTL / 8
	if t := l.term.Load(); t != nil && l.State() == LeaseHeld {
		sleep = min(sleep, t.left())
	}
	if !renewing {
		sleep = min(sleep, time.Until(next))
	}
	return max(sleep, time.Millisecond)
}

// grant is what became of one renewal.
type grant struct {
	from    moments // before it was sent
	renewed renewed
	err     error
}

// renew asks the leader once.
func (l *Lease) renew(ctx context.Context) grant {
	g := grant{from: now()}
	if g.err = l.r.Health(); g.err != nil {
		return g // what the others agree on reaches this node no more
	}
	q := renewal{ID: l.r.dir.owner, Life: l.life, Applied: l.r.View().Index()}
	if l.on.Load != nil {
		q.Load = l.on.Load()
	}
	body, err := json.Marshal(q)
	if err != nil {
		g.err = fmt.Errorf("registry: %w", err)
		return g
	}
	ctx, cancel := context.WithTimeout(ctx, l.config.TTL/3)
	defer cancel()
	a := l.r.renewWith(ctx, call{op: opRenew, body: body})
	if a.status != statusDone {
		g.err = fmt.Errorf("registry: renew the lease: status %d: %w", a.status, orNoQuorum(a.cause))
		return g
	}
	if err = json.Unmarshal(a.body, &g.renewed); err != nil {
		g.err = fmt.Errorf("%w: %w", errWire, err)
	}
	return g
}

func orNoQuorum(err error) error {
	if err == nil {
		return ErrNoQuorum
	}
	return err
}

// renewWith sends a renewal to the leader, and on to another one that is named. Who does
// not know the leader asks anybody: a node that was cut off reaches others before the
// leader reaches it.
func (r *Registry) renewWith(ctx context.Context, c call) answer {
	if r.lead.is() {
		return r.perform(ctx, r.dir.owner, c)
	}
	a := r.send(ctx, r.anybody(), c)
	if hint := NodeID(a.body); a.status == statusElsewhere && hint != "" && hint != r.dir.owner {
		a = r.send(ctx, hint, c)
	}
	return a
}

// anybody gives another member, when no leader is known; else "".
func (r *Registry) anybody() NodeID {
	if r.otherLeader() != "" {
		return ""
	}
	var others []NodeID
	for _, s := range r.servers() {
		if id := NodeID(s.ID); id != r.dir.owner {
			others = append(others, id)
		}
	}
	if len(others) == 0 {
		return ""
	}
	return others[rand.N(len(others))]
}

// take acts on what a renewal brought, and says when to send the next one.
func (l *Lease) take(g grant) time.Time {
	if g.err != nil {
		if l.State() != LeaseHeld {
			l.r.log.Debug("the lease was not renewed", "error", g.err)
		}
		return time.Now().Add(l.config.retryEvery())
	}
	if g.renewed.Fenced {
		l.state.Store(int32(LeaseOver))
		return time.Now()
	}
	l.r.loads.Store(&toldLoads{at: time.Now(), of: g.renewed.Loads})
	t := &leaseTerm{from: g.from, ttl: min(l.config.TTL, g.renewed.TTL), margin: l.config.Margin}
	if t.left() <= 0 {
		return time.Now() // the answer took too long to be of use
	}
	l.term.Store(t)
	if l.on.Granted != nil {
		l.on.Granted(t.left() + t.margin/2)
	}
	switch l.State() {
	case LeasePending:
		l.state.Store(int32(LeaseHeld))
		close(l.held)
	case LeaseEnding:
		if l.on.Thaw != nil {
			l.on.Thaw()
		}
		l.state.Store(int32(LeaseHeld))
		l.r.log.Info("the lease was renewed in time; all goes on", "incarnation", l.life)
	}
	return g.from.at.Add(l.config.renewEvery())
}

// freeze stops what runs when the margin has begun.
func (l *Lease) freeze() {
	if l.State() != LeaseHeld || l.term.Load().left() > 0 {
		return
	}
	l.state.Store(int32(LeaseEnding))
	l.r.log.Warn("the lease ends without a renewal; everything is frozen", "incarnation", l.life)
	if l.on.Freeze != nil {
		l.on.Freeze()
	}
}

// isOver reports whether this life is known to have ended: by the leader's word,
// or by what this node has applied itself.
func (l *Lease) isOver() bool {
	if l.State() == LeaseOver {
		return true
	}
	n, ok := l.r.View().Node(l.r.dir.owner)
	return ok && (n.Incarnation > l.life || n.Incarnation == l.life && n.State == NodeExpired)
}

func (l *Lease) fence() {
	l.state.Store(int32(LeaseOver))
	l.err = ErrFenced
	l.r.log.Warn("this life of the node is over", "incarnation", l.life)
	if l.on.Fenced != nil {
		l.on.Fenced(l.life)
	}
}

// toldLoads is what the leader told of all nodes' loads.
type toldLoads struct {
	at time.Time
	of map[NodeID]Load
}
