package python

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/surfaces"
)

// forkLimit bounds a fork when the caller's context has no nearer end.
const forkLimit = 10 * time.Second

// StalledError is a fork that made no progress in time. The session goes on as
// soon as the fork lets it.
type StalledError struct {
	// Libraries names what is loaded in the session and is known not to survive a
	// fork at every moment.
	Libraries []string
	Err       error
}

// Error names the likely culprits.
func (e *StalledError) Error() string {
	if len(e.Libraries) == 0 {
		return fmt.Sprintf("the copy of the session made no progress, most likely since it waits for a lock that another thread held: %v", e.Err)
	}
	return fmt.Sprintf("the copy of the session made no progress; loaded in it, and known to be in the way of copies: %s: %v",
		strings.Join(e.Libraries, ", "), e.Err)
}

// Unwrap gives the context's error.
func (e *StalledError) Unwrap() error { return e.Err }

// Fork makes a copy of this kernel's process, also while a program runs.
func (k *Kernel) Fork(ctx context.Context, kind kernel.Kind, name string) (kernel.Kernel, []surfaces.Notice, error) {
	ctx, cancel := context.WithTimeout(ctx, forkLimit)
	defer cancel()
	if err := kernel.EnsureFiles(k.process.Pid()); err != nil {
		return nil, nil, err
	}
	k.family.stir()
	b, err := newBirth()
	if err != nil {
		return nil, nil, err
	}
	r := request{Op: "fork", Kind: "session", Token: hexToken(b.token)}
	var notices []surfaces.Notice
	var h *holder
	files := b.files
	if kind == kernel.Copy {
		r.Kind, r.Folders, r.View = "copy", k.family.cfg.Folders, int(k.family.view.Load())
		if r.Confine = k.family.confines; !r.Confine {
			h, err = k.family.holder.take(ctx)
		}
		switch {
		case err != nil:
			notices = append(notices, surfaces.Notice{
				Kind: "processes_not_isolated",
				Text: fmt.Sprintf("processes: not isolated: the copy can send signals to the session, and change how it runs (%v)", err),
			})
		case h != nil:
			r.Nested = true
			files = append(files[:len(files):len(files)], h.namespace)
		}
	}
	copied, more, err := k.fork(ctx, b, r, files, h)
	if err != nil {
		return nil, nil, k.forkError(err)
	}
	copied.name, copied.kind = name, kind
	return copied, append(notices, more...), nil
}

// fork asks for the fork and raises what comes of it. It owns the birth and the
// holder.
func (k *Kernel) fork(ctx context.Context, b *birth, r request, files []*os.File, h *holder) (*Kernel, []surfaces.Notice, error) {
	answer, answered, err := k.askFork(ctx, r, files)
	b.handOver()
	var pidfd *os.File
	if err == nil {
		pidfd, err = onlyFile(answered)
	}
	if err != nil {
		b.discard()
		if h != nil {
			h.kill()
		}
		return nil, nil, err
	}
	// A session that is gone leaves its copies to the container, which reaps them.
	reap := func() { _ = k.steward.link.sendRequest(request{Op: "reap", PID: answer.PID}) }
	copied, notices, err := k.family.raise(ctx, b, pidfd, reap, h)
	if err != nil && h != nil {
		h.kill()
	}
	return copied, notices, err
}

// askFork has the main thread fork when it is idle, and the steward when not.
func (k *Kernel) askFork(ctx context.Context, r request, files []*os.File) (wireAnswer, []*os.File, error) {
	select {
	case k.turn <- struct{}{}:
		defer k.release()
		return k.idle.ask(ctx, r, files...)
	default:
		return k.steward.ask(ctx, r, files...)
	}
}

func (k *Kernel) forkError(err error) error {
	if errors.Is(err, errNoAnswer) {
		return &StalledError{Libraries: k.suspects(), Err: err}
	}
	if errors.Is(err, kernel.ErrGone) {
		return k.died(false)
	}
	return fmt.Errorf("copy a session: %w", err)
}

// Libraries whose threads or locks are known to stop a fork or its child.
var suspects = []struct{ part, name string }{
	{"openblas", "OpenBLAS"}, {"libmkl", "MKL"}, {"libgomp", "OpenMP (libgomp)"}, {"libiomp", "OpenMP (libiomp)"},
	{"libomp", "OpenMP (libomp)"}, {"grpc", "gRPC"}, {"libtorch", "PyTorch"}, {"libcuda", "CUDA"},
	{"libarrow", "Arrow"}, {"polars", "Polars"}, {"libjvm", "a JVM"}, {"tensorflow", "TensorFlow"},
}

// suspects names the libraries in the kernel's memory that can be in a fork's way.
func (k *Kernel) suspects() []string {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", k.process.Pid()))
	if err != nil {
		return nil
	}
	maps = bytes.ToLower(maps)
	var found []string
	for _, s := range suspects {
		if bytes.Contains(maps, []byte(s.part)) {
			found = append(found, s.name)
		}
	}
	return found
}
