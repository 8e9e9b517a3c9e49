package python

import (
	"context"
	"sync"
	"time"
)

// The target size of the pool starts at poolMin and doubles, up to poolMax, whenever a
// caller finds the pool empty. When no kernel was taken for poolPause, all but
// poolResting are killed: most actors are idle most of the time, and each warm kernel
// has memory of its own. The next kernel that is taken brings the target back to
// poolMin.
const (
	poolResting = 1
	poolMin     = 2
	poolMax     = 8
	poolPause   = 5 * time.Second
	// refillAfter delays the refill, so that the program of the kernel that was taken
	// runs first.
	refillAfter = 10 * time.Millisecond
	// poolMakers is how many kernels are made at a time while the pool is empty. The
	// zygote forks one after the other, but what follows the fork overlaps.
	poolMakers = 2
)

// pool keeps kernels that were forked ahead of use.
type pool struct {
	family *Family
	pause  *time.Timer

	mu     sync.Mutex
	idle   []*Kernel
	making int
	target int
	cold   bool // no kernel is made ahead of use
	closed bool
}

func newPool(f *Family) *pool {
	p := &pool{family: f, target: poolMin}
	p.pause = time.AfterFunc(poolPause, func() { f.begin(p.rest) })
	return p
}

// take returns a warm kernel, or a new cold one if there is none.
func (p *pool) take(ctx context.Context) (*Kernel, error) {
	for {
		k := p.pop()
		if k == nil {
			p.refill()
			return p.family.spawn(ctx, true)
		}
		// A new kernel is moved into its control group. On a machine that was idle that
		// blocks all forks and exits for a while, so the caller's program goes first.
		time.AfterFunc(refillAfter, p.refill)
		select {
		case <-k.process.Done():
			k.Kill()
		default:
			return k, nil
		}
	}
}

func (p *pool) pop() *Kernel {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.pause.Reset(poolPause)
	}
	n := len(p.idle)
	if n == 0 {
		p.target = min(2*p.target, poolMax)
		return nil
	}
	p.target = max(p.target, poolMin)
	k := p.idle[n-1]
	p.idle = p.idle[:n-1]
	return k
}

// rest kills all but poolResting kernels after poolPause without use.
func (p *pool) rest() {
	p.mu.Lock()
	p.target = poolResting
	var spare []*Kernel
	if n := len(p.idle); n > poolResting && !p.closed {
		spare = append(spare, p.idle[poolResting:]...)
		clear(p.idle[poolResting:])
		p.idle = p.idle[:poolResting]
	}
	p.mu.Unlock()
	for _, k := range spare {
		k.Kill()
	}
}

// Warm turns the pool on, which is the default, or off. Off kills the warm kernels, and
// each Start then makes a new one, which takes longer. Warm does not wait and is
// idempotent.
func (f *Family) Warm(on bool) {
	f.pool.mu.Lock()
	f.pool.cold = !on
	var spare []*Kernel
	if !on {
		spare, f.pool.idle = f.pool.idle, nil
	}
	f.pool.mu.Unlock()
	for _, k := range spare {
		f.begin(k.Kill) // or Close kills it
	}
}

// Used reports whether a kernel that Start returned, or a copy of one, still exists. It
// may stay true for a moment after the last one has ended.
func (f *Family) Used() bool {
	f.pool.mu.Lock()
	defer f.pool.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.kernels) > len(f.pool.idle)
}

// refill makes kernels in the background until there are enough.
func (p *pool) refill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.closed && p.wants() {
		p.making++
		if !p.family.begin(p.fill) {
			p.making--
			return
		}
	}
}

// wants reports whether another maker should start. The caller holds p.mu.
func (p *pool) wants() bool {
	makers := 1
	if len(p.idle) == 0 {
		makers = poolMakers
	}
	return !p.cold && p.making < makers && len(p.idle)+p.making < p.target
}

func (p *pool) fill() {
	for {
		k, err := p.family.spawn(context.Background(), false)
		p.mu.Lock()
		p.making--
		closed := p.closed
		// The target may have shrunk meanwhile, or the pool been turned off.
		wanted := !closed && !p.cold && len(p.idle) < p.target
		more := false
		if err == nil && wanted {
			p.idle = append(p.idle, k)
			if more = p.wants(); more {
				p.making++
			}
		}
		p.mu.Unlock()
		switch {
		case err != nil && !closed:
			p.family.log.Warn("cannot make a warm kernel", "error", err)
		case err == nil && !wanted:
			k.Kill()
		}
		if !more {
			return
		}
	}
}

// close stops the pool. The family kills the kernels.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.pause.Stop()
	p.idle = nil
}
