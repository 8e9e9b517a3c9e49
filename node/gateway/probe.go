package gateway

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
)

// Bounds on the health checks. They need no token, so at most one runs at a time, and at
// most one per probeFresh.
const (
	probeFresh   = time.Second
	probeTimeout = 15 * time.Second
)

// probe runs a health check and shares its result.
type probe struct {
	mu      sync.Mutex
	running chan struct{} // closed at the end of the check; nil if none runs
	at      time.Time     // when the last check ended, and err is its outcome
	err     error
	timeout time.Duration // 0 means probeTimeout
}

// errHangs says that a check did not even end at its deadline.
var errHangs = errors.New("the check hangs")

func (p *probe) deadline() time.Duration { return cmp.Or(p.timeout, probeTimeout) }

// patience is longer than the deadline, so that a check that ends at the deadline can
// report why.
func (p *probe) patience() time.Duration { return p.deadline() + p.deadline()/10 }

// check returns a result not older than probeFresh, or runs the check. The check does not
// end with ctx, only at its own deadline.
func (p *probe) check(ctx context.Context, f func(context.Context) error) error {
	p.mu.Lock()
	if p.running == nil {
		if !p.at.IsZero() && time.Since(p.at) < probeFresh {
			defer p.mu.Unlock()
			return p.err
		}
		p.running = make(chan struct{})
		go p.run(context.WithoutCancel(ctx), f, p.running)
	}
	running := p.running
	p.mu.Unlock()
	late := time.NewTimer(p.patience())
	defer late.Stop()
	select {
	case <-running:
	case <-late.C:
		return errHangs
	case <-ctx.Done():
		return ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *probe) run(ctx context.Context, f func(context.Context) error, done chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, p.deadline())
	defer cancel()
	err := safely(func() error { return f(ctx) })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err, p.at, p.running = err, time.Now(), nil
	close(done)
}
