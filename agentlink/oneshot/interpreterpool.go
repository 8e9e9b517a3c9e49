package oneshot

import (
	"errors"
	"log/slog"
	"sync"
)

// interpreterPool keeps an interpreter ready and, where the system can fork, the zygote
// from which interpreters are forked. Starting one takes a hundred times as long as running
// a short program.
type interpreterPool struct {
	pool[*interpreter]
	log *slog.Logger

	mu       sync.Mutex
	zygote   *zygote
	starting *zygote // while it warms up
	noZygote string  // path of a Python that cannot serve as a zygote
	closed   bool
}

// interpreter returns the interpreter that is ready, or a new one.
func (b *interpreterPool) interpreter(path, dir string) (*interpreter, error) {
	if p, ok := b.take(path); ok {
		return p, nil
	}
	return b.make(path, dir)
}

// fill prepares an interpreter if none is ready, and returns when it is.
func (b *interpreterPool) fill(path, dir string) error {
	return b.pool.fill(path, func() (*interpreter, error) {
		b.ensureZygote(path)
		return b.make(path, dir)
	})
}

// make forks an interpreter if there is a zygote, and starts one otherwise.
func (b *interpreterPool) make(path, dir string) (*interpreter, error) {
	b.mu.Lock()
	z := b.zygote
	b.mu.Unlock()
	if z == nil || z.path != path {
		return startInterpreter(path, dir)
	}
	p, err := z.fork(dir)
	if err == nil {
		return p, nil
	}
	if b.dropZygote(z) {
		b.log.Warn("a program's interpreter is started, not forked", "error", err)
	}
	return startInterpreter(path, dir)
}

// ensureZygote starts a zygote for a Python, if that can serve as one.
func (b *interpreterPool) ensureZygote(path string) {
	b.mu.Lock()
	z, unable := b.zygote, b.noZygote == path
	b.mu.Unlock()
	if unable || z != nil && z.path == path {
		return
	}
	if z != nil {
		b.dropZygote(z) // another Python was installed
	}
	z, err := startZygote(path)
	if err == nil {
		b.setStarting(z)
		err = z.wait()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.starting = nil
	switch {
	case err == nil && !b.closed:
		b.zygote = z
		return
	case z != nil:
		z.kill()
	}
	if b.noZygote = path; !b.closed && !errors.Is(err, errors.ErrUnsupported) {
		b.log.Warn("this Python cannot be forked: an interpreter is started for each program", "path", path, "error", err)
	}
}

// setStarting makes close kill a zygote that is warming up.
func (b *interpreterPool) setStarting(z *zygote) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.starting = z; b.closed {
		z.kill()
	}
}

// dropZygote kills a zygote. It returns false if that was done before.
func (b *interpreterPool) dropZygote(z *zygote) bool {
	b.mu.Lock()
	mine := b.zygote == z
	if mine {
		b.zygote = nil
	}
	b.mu.Unlock()
	z.kill()
	return mine
}

// stopZygote kills the zygote. The next Python program starts a new one.
func (b *interpreterPool) stopZygote() {
	b.mu.Lock()
	z := b.zygote
	b.mu.Unlock()
	if z != nil {
		b.dropZygote(z)
	}
}

func (b *interpreterPool) close() error {
	b.mu.Lock()
	b.closed = true
	if b.starting != nil {
		b.starting.kill()
	}
	b.mu.Unlock()
	b.stopZygote()
	return b.pool.close()
}
