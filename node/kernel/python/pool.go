package python

import (
	"context"
	"sync"
	"time"
)

// The number of kernels that are kept warm. It doubles up to poolMax when a caller
// finds none. When nobody has taken one for poolPause, all but poolResting end: most
// actors do nothing most of the time, and a warm kernel has memory of its own. The
// first one taken after a rest brings the pool back to poolMin.
const (
	poolResting = 1
	poolMin     = 2
	poolMax     = 8
	poolPause   = 5 * time.Second
	// refillAfter is how long the next kernel waits for the program of the one that was taken.
	refillAfter = 10 * time.Millisecond
	// poolMakers is how many are made at a time when there is none: the zygote forks
	// one after the other, but what follows the fork can overlap.
	poolMakers = 2
)

// pool keeps kernels that were forked ahead of their use.
type pool struct {
	family *Family
	pause  *time.Timer

	mu     sync.Mutex
	idle   []*Kernel
	making int
	target int
	cold   bool // none is made ahead of its use
	closed bool
}

func newPool(f *Family) *pool {
	p := &pool{family: f, target: poolMin}
	p.pause = time.AfterFunc(poolPause, func() { f.begin(p.rest) })
	return p
}

// take gives a warm kernel, or makes one.
func (p *pool) take(ctx context.Context) (*Kernel, error) {
	for {
		k := p.pop()
		if k == nil {
			p.refill()
			return p.family.spawn(ctx, true)
		}
		// Making one moves it between control groups, and on a machine that was idle nothing
		// can fork or end meanwhile: the program that was waited for goes first.
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

// rest ends the kernels that nobody has wanted for a while.
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

// Warm says whether kernels may be made ahead of their use, as they are unless told
// otherwise. With false those that are ready end; a Start then takes longer. It
// returns at once and is idempotent.
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

// Used reports whether a kernel that was given out, or a copy of one, is there still.
// It may say so a moment longer.
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

// wants says whether one more is to be made. p.mu is held.
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
		// The pool may have gone to rest meanwhile, or cold.
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
			p.family.log.Warn("a warm kernel could not be made", "error", err)
		case err == nil && !wanted:
			k.Kill()
		}
		if !more {
			return
		}
	}
}

// close stops the refilling. The kernels are killed by the family, which knows them.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.pause.Stop()
	p.idle = nil
}
