package oneshot

import (
	"errors"
	"log/slog"
	"sync"
)

// bench keeps interpreters at hand, and where the system can fork, the zygote that they
// are forked from: to start one takes a hundred times as long as to run a short program.
type bench struct {
	shelf[*interpreter]
	log *slog.Logger

	mu       sync.Mutex
	zygote   *zygote
	starting *zygote // while it is not warm
	barren   string  // path of a Python that could not be made a zygote
	closed   bool
}

// interpreter gives one: that which waits, or a new one.
func (b *bench) interpreter(path, dir string) (*interpreter, error) {
	if p, ok := b.take(path); ok {
		return p, nil
	}
	return b.make(path, dir)
}

// fill puts an interpreter on the bench if there is none, and returns when it is ready.
func (b *bench) fill(path, dir string) error {
	return b.shelf.fill(path, func() (*interpreter, error) {
		b.warm(path)
		return b.make(path, dir)
	})
}

// make forks an interpreter where there is a zygote, and starts one elsewhere.
func (b *bench) make(path, dir string) (*interpreter, error) {
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
	if b.lose(z) {
		b.log.Warn("a program's interpreter is started, not forked", "error", err)
	}
	return startInterpreter(path, dir)
}

// warm sees to the zygote of a Python, if it can be one.
func (b *bench) warm(path string) {
	b.mu.Lock()
	z, barren := b.zygote, b.barren == path
	b.mu.Unlock()
	if barren || z != nil && z.path == path {
		return
	}
	if z != nil {
		b.lose(z) // another Python was installed meanwhile
	}
	z, err := startZygote(path)
	if err == nil {
		b.starts(z)
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
	if b.barren = path; !b.closed && !errors.Is(err, errors.ErrUnsupported) {
		b.log.Warn("this Python cannot be forked: an interpreter is started for each program", "path", path, "error", err)
	}
}

// starts lets close end a zygote that does not become warm.
func (b *bench) starts(z *zygote) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.starting = z; b.closed {
		z.kill()
	}
}

// lose ends a zygote; false where that was done before.
func (b *bench) lose(z *zygote) bool {
	b.mu.Lock()
	mine := b.zygote == z
	if mine {
		b.zygote = nil
	}
	b.mu.Unlock()
	z.kill()
	return mine
}

// rest ends the zygote, until the next program of Python.
func (b *bench) rest() {
	b.mu.Lock()
	z := b.zygote
	b.mu.Unlock()
	if z != nil {
		b.lose(z)
	}
}

func (b *bench) close() error {
	b.mu.Lock()
	b.closed = true
	if b.starting != nil {
		b.starting.kill()
	}
	b.mu.Unlock()
	b.rest()
	return b.shelf.close()
}
