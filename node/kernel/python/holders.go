package python

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/locusrun/locus/node/sandbox"
)

// holder is the first process of a pid namespace in which a copy runs. Killing it
// kills the copy and every process that the copy started.
type holder struct {
	process   *sandbox.Process
	namespace *os.File
}

func (h *holder) kill() {
	_ = h.process.Signal(unix.SIGKILL) // it may have ended already
	h.namespace.Close()
	<-h.process.Done()
}

// holders keeps one holder ready. Once the machine has said that it has none to give,
// the reason is kept and given to every copy.
type holders struct {
	family *Family

	mu      sync.Mutex
	ready   *holder
	making  bool
	closed  bool
	refused error
}

// take returns a holder, or the reason why this machine cannot have one.
func (p *holders) take(ctx context.Context) (*holder, error) {
	p.mu.Lock()
	h, refused := p.ready, p.refused
	p.ready = nil
	p.mu.Unlock()
	if refused != nil {
		return nil, refused
	}
	defer p.refill()
	if h != nil {
		select {
		case <-h.process.Done():
			h.kill()
		default:
			return h, nil
		}
	}
	return p.make(ctx)
}

func (p *holders) make(ctx context.Context) (*holder, error) {
	_, files, err := p.family.control.call(ctx, request{Op: "holder"})
	if isForGood(err) {
		p.mu.Lock()
		p.refused = err
		p.mu.Unlock()
	}
	if err != nil {
		return nil, err
	}
	if len(files) != 2 {
		for _, f := range files {
			f.Close()
		}
		return nil, errFrame
	}
	// Its parent is gone already: the container reaps it.
	process, err := p.family.cfg.Container.Adopt(files[0], nil)
	if err != nil {
		files[1].Close()
		return nil, fmt.Errorf("adopt a pid namespace: %w", err)
	}
	return &holder{process: process, namespace: files[1]}, nil
}

// isForGood says whether a machine that answered so will always do: it has no pid
// namespaces, or gives us none. A limit that was reached may be far the next time.
func isForGood(err error) bool {
	return slices.ContainsFunc([]error{unix.EPERM, unix.EACCES, unix.ENOSYS, unix.EINVAL}, func(final error) bool {
		return errors.Is(err, final)
	})
}

func (p *holders) refill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.making || p.ready != nil || p.refused != nil {
		return
	}
	p.making = p.family.begin(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startLimit)
		defer cancel()
		h, err := p.make(ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.making = false
		switch {
		case err != nil:
			p.family.log.Debug("no pid namespace for copies", "error", err)
		case p.closed || p.ready != nil:
			defer h.kill()
		default:
			p.ready = h
		}
	})
}

func (p *holders) close() {
	p.mu.Lock()
	h := p.ready
	p.ready, p.closed = nil, true
	p.mu.Unlock()
	if h != nil {
		h.kill()
	}
}
