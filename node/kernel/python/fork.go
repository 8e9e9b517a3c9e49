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

// forkLimit bounds a fork, in addition to the caller's context. A copy that a fork alone cannot
// make may take kernel.CopyLimit, because its interpreter imports the session's modules anew.
const forkLimit = 10 * time.Second

// StalledError is the error of a fork that did not finish in time. The session
// continues as soon as its fork call returns.
type StalledError struct {
	// Libraries names the libraries loaded in the session that are known to break or
	// block forks.
	Libraries []string
	Err       error
}

// Error names the likely causes.
func (e *StalledError) Error() string {
	if len(e.Libraries) == 0 {
		return fmt.Sprintf("the copy of the session made no progress, most likely since it waits for a lock that another thread held: %v", e.Err)
	}
	return fmt.Sprintf("the copy of the session made no progress; loaded in it, and known to be in the way of copies: %s: %v",
		strings.Join(e.Libraries, ", "), e.Err)
}

// Unwrap returns the context's error.
func (e *StalledError) Unwrap() error { return e.Err }

// Fork makes a copy of this kernel's process, even while a program runs.
func (k *Kernel) Fork(ctx context.Context, kind kernel.Kind, name string) (kernel.Kernel, []surfaces.Notice, error) {
	if err := kernel.EnsureFiles(k.process.Pid()); err != nil {
		return nil, nil, err
	}
	k.family.prepareMove()
	b, err := newEndpoints()
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

// fork has the kernel fork and makes a kernel from the child. It owns b and h.
func (k *Kernel) fork(ctx context.Context, b *endpoints, r request, files []*os.File, h *holder) (*Kernel, []surfaces.Notice, error) {
	limited, cancel := context.WithTimeout(ctx, forkLimit)
	defer cancel()
	answer, answered, err := k.requestFork(limited, r, files)
	b.handOver()
	var pidfd *os.File
	if err == nil {
		pidfd, err = singleFile(answered)
	}
	if err != nil {
		b.discard()
		if h != nil {
			h.kill()
		}
		return nil, nil, err
	}
	// If the session is gone, the container has inherited its children and reaps them.
	reap := func() { _ = k.steward.link.sendRequest(request{Op: "reap", PID: answer.PID}) }
	if answer.Serialised {
		limited, cancel = context.WithTimeout(ctx, kernel.CopyLimit)
		defer cancel()
	}
	copied, notices, err := k.family.adopt(limited, b, pidfd, reap, h)
	if err != nil && h != nil {
		h.kill()
	}
	if answer.Serialised && errors.Is(err, errNoAnswer) {
		err = fmt.Errorf("%w: %w", kernel.ErrSlowCopy, err)
	}
	return copied, notices, err
}

// requestFork has the main thread fork if it is idle, and the steward otherwise.
func (k *Kernel) requestFork(ctx context.Context, r request, files []*os.File) (wireAnswer, []*os.File, error) {
	select {
	case k.turn <- struct{}{}:
		defer k.release()
		return k.mainThread.call(ctx, r, files...)
	default:
		return k.steward.call(ctx, r, files...)
	}
}

func (k *Kernel) forkError(err error) error {
	switch {
	case errors.Is(err, kernel.ErrSlowCopy):
		return err
	case errors.Is(err, errNoAnswer):
		return &StalledError{Libraries: k.suspects(), Err: err}
	case errors.Is(err, kernel.ErrGone):
		return k.died(false)
	}
	return fmt.Errorf("copy a session: %w", err)
}

// suspects are libraries whose threads or locks are known to block a fork or its
// child, by a part of the name of their shared object.
var suspects = []struct{ part, name string }{
	{"openblas", "OpenBLAS"}, {"libmkl", "MKL"}, {"libgomp", "OpenMP (libgomp)"}, {"libiomp", "OpenMP (libiomp)"},
	{"libomp", "OpenMP (libomp)"}, {"grpc", "gRPC"}, {"libtorch", "PyTorch"}, {"libcuda", "CUDA"},
	{"libarrow", "Arrow"}, {"polars", "Polars"}, {"libjvm", "a JVM"}, {"tensorflow", "TensorFlow"},
}

// suspects returns the names of such libraries in the kernel's memory.
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
