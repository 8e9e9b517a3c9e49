package shell

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/locusrun/locus/node/kernel"
)

// pool keeps a few kernels that were started ahead of use.
type pool[K kernel.Kernel] struct {
	family *Family
	size   int
	make   func(context.Context) (K, error)

	mu      sync.Mutex
	idle    []K
	filling bool
	cold    bool // no kernel is started ahead of use
}

// warmLimit bounds the start of one kernel ahead of use.
const warmLimit = 10 * time.Second

// take returns a warm kernel, or a new one if there is none, and restocks the pool.
func (p *pool[K]) take(ctx context.Context) (K, error) {
	defer p.restock()
	for {
		k, ok := p.pop()
		if !ok {
			return p.make(ctx)
		}
		select {
		case <-k.Process().Done():
			k.Kill() // it died of an outside cause, such as lack of memory
		default:
			// The agent's code, which runs as the same user, may have stopped it. If it has
			// just ended, the next request to it reports that.
			_ = k.Process().Signal(syscall.SIGCONT)
			return k, nil
		}
	}
}

// restockAfter delays the restock, so that the program of the kernel that was taken runs
// first: a start moves a process between control groups, which on a machine that was idle
// blocks all forks and exits for some 15 ms.
const restockAfter = 50 * time.Millisecond

// restock refills the pool after restockAfter, or at once if it is empty.
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
			// The next take makes a kernel itself and returns its error.
			if errors.Is(err, ErrClosed) {
				return
			}
			p.family.log.Warn("cannot start a shell ahead of use", "error", err)
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

// offer adds a kernel, unless the pool was turned off meanwhile.
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

// warm turns the pool on or off. Off kills the idle kernels.
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

// Warm turns the pools on, which is the default, or off. Off kills the warm kernels, and
// each Start then starts a new one, which takes longer. Warm does not wait and is
// idempotent.
func (f *Family) Warm(on bool) {
	f.once.warm(on)
	f.fresh.warm(on)
}

// Used reports whether a kernel that Start returned, or a copy of one, still exists. It
// may stay true for a moment after the last one has ended.
func (f *Family) Used() bool {
	f.once.mu.Lock()
	defer f.once.mu.Unlock()
	f.fresh.mu.Lock()
	defer f.fresh.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.alive) > len(f.once.idle)+len(f.fresh.idle)
}
