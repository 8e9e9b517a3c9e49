package python

import (
	"context"
	"sync"
	"time"
)

// The number of kernels that are kept warm: at least poolMin; it doubles up to
// poolMax when a caller finds none, and shrinks again by one each poolDecay.
const (
	poolMin   = 2
	poolMax   = 16
	poolDecay = 10 * time.Second
)

// pool keeps kernels that were forked ahead of their use.
type pool struct {
	family *Family

	mu     sync.Mutex
	idle   []*Kernel
	making int
	target int
	missed time.Time
	closed bool
}

func newPool(f *Family) *pool { return &pool{family: f, target: poolMin} }

// take gives a warm kernel, or makes one.
func (p *pool) take(ctx context.Context) (*Kernel, error) {
	for {
		k := p.pop()
		p.refill()
		if k == nil {
			return p.family.spawn(ctx)
		}
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
	now := time.Now()
	n := len(p.idle)
	if n == 0 {
		p.missed = now
		p.target = min(2*p.target, poolMax)
		return nil
	}
	if p.target > poolMin && now.Sub(p.missed) > poolDecay {
		p.target--
		p.missed = now
	}
	k := p.idle[n-1]
	p.idle = p.idle[:n-1]
	return k
}

// refill makes kernels in the background until there are enough. One is made at a
// time, since the zygote forks one at a time.
func (p *pool) refill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.making > 0 || len(p.idle) >= p.target {
		return
	}
	p.making++
	if !p.family.begin(p.fill) {
		p.making--
	}
}

func (p *pool) fill() {
	for p.wants() {
		k, err := p.family.spawn(context.Background())
		if err != nil {
			p.mu.Lock()
			p.making--
			closed := p.closed
			p.mu.Unlock()
			if !closed {
				p.family.log.Warn("a warm kernel could not be made", "error", err)
			}
			return
		}
		if !p.put(k) {
			k.Kill()
		}
	}
}

// wants says whether one more is to be made; if not, the maker is done.
func (p *pool) wants() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed && len(p.idle) < p.target {
		return true
	}
	p.making--
	return false
}

func (p *pool) put(k *Kernel) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.idle = append(p.idle, k)
	return true
}

// close stops the refilling. The kernels are killed by the family, which knows them.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.idle = nil
}
