package shell

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/locusrun/locus/node/kernel"
)

// pool keeps a few kernels started ahead of use. Each is given out once.
type pool[K kernel.Kernel] struct {
	family *Family
	size   int
	make   func(context.Context) (K, error)

	mu      sync.Mutex
	idle    []K
	filling bool
	cold    bool // none is started ahead of its use
}

// warmLimit bounds the making of one kernel ahead of use.
const warmLimit = 10 * time.Second

// take gives a kernel that lives, a warm one if there is one, and sees to the next.
func (p *pool[K]) take(ctx context.Context) (K, error) {
	defer p.restock()
	for {
		k, ok := p.pop()
		if !ok {
			return p.make(ctx)
		}
		select {
		case <-k.Process().Done():
			k.Kill() // it died of something outside, such as a lack of memory
		default:
			return k, nil
		}
	}
}

// restockAfter is how long the next kernel waits for the program of the one that was
// taken: to start one moves processes between control groups, and on a machine that was
// idle nothing can fork or end for some 15 ms meanwhile.
const restockAfter = 50 * time.Millisecond

// restock sees to the next kernel: at once when there is none left.
func (p *pool[K]) restock() {
	p.mu.Lock()
	spare := len(p.idle) > 0
	p.mu.Unlock()
	if spare {
		time.AfterFunc(restockAfter, p.refill)
		return
	}
	p.refill()
}

func (p *pool[K]) pop() (k K, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return k, false
	}
	k = p.idle[0]
	p.idle = p.idle[1:]
	return k, true
}

func (p *pool[K]) give(k K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, k)
}

// refill fills the pool in the background, one filler at a time.
func (p *pool[K]) refill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.filling || p.cold || len(p.idle) >= p.size {
		return
	}
	p.filling = p.family.background(p.fill)
}

func (p *pool[K]) fill() {
	for p.wanting() {
		ctx, cancel := context.WithTimeout(context.Background(), warmLimit)
		k, err := p.make(ctx)
		cancel()
		if err != nil {
			// The next take makes its own, and tells the error to its caller.
			if errors.Is(err, ErrClosed) {
				return
			}
			p.family.log.Warn("a shell could not be started ahead of use", "error", err)
			p.mu.Lock()
			p.filling = false
			p.mu.Unlock()
			return
		}
		if !p.offer(k) {
			k.Kill()
		}
	}
}

// offer takes a kernel in, unless the pool has gone cold meanwhile.
func (p *pool[K]) offer(k K) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.cold {
		p.idle = append(p.idle, k)
	}
	return !p.cold
}

func (p *pool[K]) wanting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.filling = !p.cold && len(p.idle) < p.size
	return p.filling
}

// warm says whether kernels are started ahead of their use. With false, the ones that
// are ready end.
func (p *pool[K]) warm(on bool) {
	p.mu.Lock()
	p.cold = !on
	var spare []K
	if !on {
		spare, p.idle = p.idle, nil
	}
	p.mu.Unlock()
	for _, k := range spare {
		p.family.background(k.Kill) // or Close kills it
	}
}

// Warm says whether kernels may be started ahead of their use, as they are unless told
// otherwise. With false those that are ready end; a Start then takes longer. It
// returns at once and is idempotent.
func (f *Family) Warm(on bool) {
	f.once.warm(on)
	f.fresh.warm(on)
}

// Used reports whether a kernel that was given out, or a copy of one, is there still.
// It may say so a moment longer.
func (f *Family) Used() bool {
	f.once.mu.Lock()
	defer f.once.mu.Unlock()
	f.fresh.mu.Lock()
	defer f.fresh.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.alive) > len(f.once.idle)+len(f.fresh.idle)
}
