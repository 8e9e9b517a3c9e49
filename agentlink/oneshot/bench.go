package oneshot

import (
	"sync"
	"time"
)

// benchLimit is how long an interpreter may wait for a program that does not come. A
// machine on which nothing runs keeps nothing of ours.
const benchLimit = 5 * time.Minute

// bench keeps one interpreter at hand: to start one takes a hundred times as long as to
// run a short program.
type bench struct {
	mu       sync.Mutex
	ready    *interpreter
	path     string // of ready
	rest     *time.Timer
	making   bool
	starting *interpreter // while it is being made
	closed   bool
}

// take gives the interpreter that waits, if it is of this program and alive.
func (b *bench) take(path string) *interpreter {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.ready
	if p == nil || b.path != path {
		return nil
	}
	b.ready = nil
	b.rest.Stop()
	select {
	case <-p.ended:
		_ = p.discard() // it died while it waited, and what is left of it is only a folder
		return nil
	default:
		return p
	}
}

// fill puts an interpreter on the bench if there is none, and returns when it is ready.
func (b *bench) fill(path, dir string) error {
	b.mu.Lock()
	if b.closed || b.making || b.ready != nil && b.path == path {
		b.mu.Unlock()
		return nil
	}
	old := b.ready
	b.ready, b.making = nil, true
	b.mu.Unlock()
	if old != nil {
		_ = old.discard() // another Python was installed meanwhile
	}
	p, err := startInterpreter(path, dir)
	if err == nil {
		b.starts(p)
		err = p.wait()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.making, b.starting = false, nil
	switch {
	case p == nil:
		return err
	case b.closed:
		return p.discard()
	case err != nil:
		_ = p.discard() // err says more
		return err
	}
	b.ready, b.path = p, path
	b.rest = time.AfterFunc(benchLimit, func() { b.retire(p) })
	return nil
}

// starts lets close end an interpreter that does not become ready.
func (b *bench) starts(p *interpreter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.starting = p
	if b.closed {
		p.kill()
	}
}

// retire ends an interpreter that has waited for too long.
func (b *bench) retire(p *interpreter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ready == p {
		b.ready = nil
		_ = p.discard() // nothing has run in it
	}
}

func (b *bench) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.starting != nil {
		b.starting.kill()
	}
	p := b.ready
	if b.ready = nil; p == nil {
		return nil
	}
	b.rest.Stop()
	return p.discard()
}
