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
}

// warmLimit bounds the making of one kernel ahead of use.
const warmLimit = 10 * time.Second

// take gives a kernel that lives, a warm one if there is one, and sees to the next.
func (p *pool[K]) take(ctx context.Context) (K, error) {
	defer p.refill()
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
	if p.filling || len(p.idle) >= p.size {
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
		p.give(k)
	}
}

func (p *pool[K]) wanting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.filling = len(p.idle) < p.size
	return p.filling
}
