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
	// LeasePending: no lease was granted yet. The node must not serve.
	LeasePending LeaseState = iota
	// LeaseHeld: the node may serve.
	LeaseHeld
	// LeaseEnding: the lease is within its margin or has run out. Nothing may be
	// started, and running code is frozen. The lease may still be renewed.
	LeaseEnding
	// LeaseEnded: this incarnation will never be granted a lease again.
	LeaseEnded
)

// String returns the state in one word.
func (s LeaseState) String() string { return [...]string{"pending", "held", "ending", "over"}[s] }

// ErrFenced ends a lease whose incarnation is over. The node must kill everything that it
// runs for its sessions and register again.
var ErrFenced = errors.New("registry: this life of the node is over")

// LeaseEvents are callbacks of a lease. Any may be nil. The lease's goroutine calls them one
// at a time; only Load is called beside them, by the goroutine of a renewal.
type LeaseEvents struct {
	// Freeze is called when the margin begins. It has to stop all code that runs in
	// sessions before the margin has passed. Valid already returns false.
	Freeze func()
	// Granted is called after every renewal with how long code may run at most from now
	// on: half of the margin longer than until Freeze. It is meant for a watchdog that
	// stops the code if this process cannot.
	Granted func(time.Duration)
	// Thaw is called when the lease of a frozen node was renewed in time, so nothing was
	// lost. Valid returns true afterwards.
	Thaw func()
	// Fenced is called last, when this incarnation is over. Its sessions are lost and may
	// already live on another node.
	Fenced func(Incarnation)
	// Load returns the load to report with a renewal.
	Load func() Load
}

// Lease is the right of one incarnation of this node to serve. A goroutine renews it with
// the leader until its context ends or the incarnation is over. It is safe for concurrent
// use.
type Lease struct {
	r      *Registry
	life   Incarnation
	on     LeaseEvents
	config LeaseConfig

	state atomic.Int32
	term  atomic.Pointer[leaseTerm] // the latest granted term; nil before the first
	held  chan struct{}             // closed when the first lease was granted
	done  chan struct{}             // closed when the lease has ended
	err   error                     // set before done is closed
}

// leaseTerm is one granted renewal. It counts from before the renewal was sent, so it ends
// before the leader takes it to have ended, however long the answer took.
type leaseTerm struct {
	from   clockReading
	margin time.Duration // how long before the end the node stops serving
	ttl    time.Duration
}

// clockReading is a point in time on the monotonic clock, which stops while the machine is
// suspended, and for how long the machine had been suspended by then.
type clockReading struct {
	at        time.Time
	suspended time.Duration // how long the machine was suspended before, since it booted
}

func readClock() clockReading { return clockReading{time.Now(), suspendedTime()} }

func (m clockReading) since() time.Duration {
	return time.Since(m.at) + max(0, suspendedTime()-m.suspended)
}

// left is how long it is until the margin begins.
func (t *leaseTerm) left() time.Duration { return t.ttl - t.margin - t.from.since() }

// KeepLease keeps a lease for the incarnation that RegisterNode returned, until ctx ends.
// It returns at once, in LeasePending.
func (r *Registry) KeepLease(ctx context.Context, life Incarnation, on LeaseEvents) *Lease {
	l := &Lease{r: r, life: life, on: on, config: r.LeaseConfig(), held: make(chan struct{}), done: make(chan struct{})}
	go l.renewLoop(ctx)
	return l
}

// Valid reports whether the node may serve now. It is cheap (an atomic load and a clock):
// ask it before every step that others can observe. After a pause of the process it is
// correct at once, before Freeze was called.
func (l *Lease) Valid() bool {
	t := l.term.Load()
	return t != nil && l.State() == LeaseHeld && t.left() > 0
}

// State returns the state that the lease's goroutine saw last, which may be out of date
// after a pause of the process. To decide whether to serve, ask Valid.
func (l *Lease) State() LeaseState { return LeaseState(l.state.Load()) }

// Incarnation is the incarnation that the lease is for.
func (l *Lease) Incarnation() Incarnation { return l.life }

// Await waits until the lease is granted for the first time. It fails when the lease ends
// before, or ctx does.
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

// Done is closed when the lease is no longer renewed.
func (l *Lease) Done() <-chan struct{} { return l.done }

// Err returns, after Done, why the lease ended: ErrFenced, or the cause of its context.
// Before, it returns nil.
func (l *Lease) Err() error {
	select {
	case <-l.done:
		return l.err
	default:
		return nil
	}
}

// Release gives the lease up early, so that the other nodes need not wait until it runs
// out. It must be called after Done, when this incarnation serves nothing any more.
func (l *Lease) Release(ctx context.Context) error {
	body, err := json.Marshal(renewal{ID: l.r.dir.owner, Incarnation: l.life, Applied: l.r.View().Index(), Stopped: true})
	if err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	if a := l.r.renewWith(ctx, call{op: opRenew, body: body}); a.status != statusDone {
		return fmt.Errorf("registry: release the lease: status %d: %w", a.status, orNoQuorum(a.cause))
	}
	return nil
}

// maxRenewals bounds the renewals of one lease that wait for their answers.
const maxRenewals = 3

// renewLoop renews the lease and calls the events. Each renewal runs on a goroutine of its
// own, so that one that hangs neither keeps the node from freezing in time nor delays the
// next: what was sent just before the end of a network's failure may never be answered.
func (l *Lease) renewLoop(ctx context.Context) {
	defer close(l.done)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan renewalResult, maxRenewals)
	waiting := 0
	defer func() {
		cancel()
		for range waiting {
			<-results
		}
	}()
	next := time.Now()
	wake := time.NewTimer(0)
	defer wake.Stop()
	for {
		select {
		case <-ctx.Done():
			l.err = context.Cause(ctx)
			l.state.Store(int32(LeaseEnded))
			return
		case g := <-results:
			waiting--
			if at := l.applyRenewal(g); g.err == nil || waiting == 0 {
				next = at
			}
		case <-wake.C:
		}
		if l.isOver() {
			cancel()
			for ; waiting > 0; waiting-- {
				<-results
			}
			l.fence()
			return
		}
		l.freeze()
		if waiting < maxRenewals && !time.Now().Before(next) {
			waiting++
			next = time.Now().Add(l.config.repeatAfter())
			go func() { results <- l.renew(ctx) }()
		}
		wake.Reset(l.untilNextStep(next, waiting < maxRenewals))
	}
}

// untilNextStep is how long the loop may sleep. It is at most an eighth of the TTL, so that
// the end of a machine's suspension is noticed soon even though timers stopped meanwhile.
func (l *Lease) untilNextStep(next time.Time, mayRenew bool) time.Duration {
	sleep := l.config.TTL / 8
	if t := l.term.Load(); t != nil && l.State() == LeaseHeld {
		sleep = min(sleep, t.left())
	}
	if mayRenew {
		sleep = min(sleep, time.Until(next))
	}
	return max(sleep, time.Millisecond)
}

// renewalResult is the outcome of one renewal.
type renewalResult struct {
	from    clockReading // before it was sent
	renewed renewed
	err     error
}

// renew asks the leader once for a renewal.
func (l *Lease) renew(ctx context.Context) renewalResult {
	g := renewalResult{from: readClock()}
	if g.err = l.r.Health(); g.err != nil {
		return g // this node no longer follows the log, so it must not go on serving
	}
	q := renewal{ID: l.r.dir.owner, Incarnation: l.life, Applied: l.r.View().Index()}
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

// renewWith sends a renewal to the leader, and follows one redirect. A node that knows no
// leader asks any other member: after a partition it can reach the others before the
// leader's heartbeat reaches it.
func (r *Registry) renewWith(ctx context.Context, c call) answer {
	if r.lead.is() {
		return r.perform(ctx, r.dir.owner, c)
	}
	a := r.send(ctx, r.anyMember(), c)
	if hint := NodeID(a.body); a.status == statusNotLeader && hint != "" && hint != r.dir.owner {
		a = r.send(ctx, hint, c)
	}
	return a
}

// anyMember returns a random other member if no leader is known, else "".
func (r *Registry) anyMember() NodeID {
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

// applyRenewal applies the outcome of a renewal and returns when to send the next one.
func (l *Lease) applyRenewal(g renewalResult) time.Time {
	if g.err != nil {
		if l.State() != LeaseHeld {
			l.r.log.Debug("the lease was not renewed", "error", g.err)
		}
		return time.Now().Add(l.config.retryEvery())
	}
	if g.renewed.Fenced {
		l.state.Store(int32(LeaseEnded))
		return time.Now()
	}
	if have := l.term.Load(); have != nil && g.from.at.Before(have.from.at) {
		return have.from.at.Add(l.config.renewEvery()) // a later renewal was answered first
	}
	l.r.loads.Store(&reportedLoads{at: time.Now(), of: g.renewed.Loads})
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
		l.r.log.Info("the lease was renewed before it ended; frozen code goes on", "incarnation", l.life)
	}
	return g.from.at.Add(l.config.renewEvery())
}

// freeze enters LeaseEnding if the margin has begun.
func (l *Lease) freeze() {
	if l.State() != LeaseHeld || l.term.Load().left() > 0 {
		return
	}
	l.state.Store(int32(LeaseEnding))
	l.r.log.Warn("the lease was not renewed in time; running code is frozen", "incarnation", l.life)
	if l.on.Freeze != nil {
		l.on.Freeze()
	}
}

// isOver reports whether this incarnation is known to have ended, by the leader's answer
// or by the log that this node has applied.
func (l *Lease) isOver() bool {
	if l.State() == LeaseEnded {
		return true
	}
	n, ok := l.r.View().Node(l.r.dir.owner)
	return ok && (n.Incarnation > l.life || n.Incarnation == l.life && n.State == NodeExpired)
}

func (l *Lease) fence() {
	l.state.Store(int32(LeaseEnded))
	l.err = ErrFenced
	l.r.log.Warn("this incarnation of the node is over", "incarnation", l.life)
	if l.on.Fenced != nil {
		l.on.Fenced(l.life)
	}
}

// reportedLoads are the loads of all nodes, as the leader reported them with a renewal.
type reportedLoads struct {
	at time.Time // when the leader's answer with the loads came
	of map[NodeID]Load
}
