package python

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/surfaces"
)

// endpoints holds what is made before a kernel's process exists: its two control
// sockets, the token, and the first pair of output pipes.
type endpoints struct {
	token            []byte
	control, steward *link
	capture          *kernel.Capture
	// files are the process's ends, in the protocol's order.
	files []*os.File
}

func newEndpoints() (*endpoints, error) {
	b := &endpoints{token: newToken()}
	var err error
	var peer *os.File
	if b.control, peer, err = newLink(b.token); err != nil {
		return nil, err
	}
	b.files = append(b.files, peer)
	if b.steward, peer, err = newLink(b.token); err != nil {
		b.discard()
		return nil, err
	}
	b.files = append(b.files, peer)
	capture, stdout, stderr, err := kernel.NewCapture()
	if err != nil {
		b.discard()
		return nil, err
	}
	b.capture = capture
	b.files = append(b.files, stdout, stderr)
	return b, nil
}

// handOver closes the node's copies of the process's ends, after they were sent.
func (b *endpoints) handOver() {
	for _, f := range b.files {
		f.Close()
	}
	b.files = nil
}

// discard closes everything. A process that has the other ends reads end-of-file
// from its sockets and exits.
func (b *endpoints) discard() {
	b.handOver()
	b.control.close()
	if b.steward != nil {
		b.steward.close()
	}
	if b.capture != nil {
		b.capture.Close()
	}
}

// adopt makes a kernel from a process that was forked with the ends of b. It moves
// the process and its holder, if any, into a new group and waits for the worker's
// hello. It owns b and the pidfd. On an error it kills the process.
func (f *Family) adopt(ctx context.Context, b *endpoints, pidfd *os.File, reap func(), holder *holder) (*Kernel, []surfaces.Notice, error) {
	process, err := f.cfg.Container.Adopt(pidfd, reap)
	if err != nil {
		b.discard()
		return nil, nil, fmt.Errorf("adopt a kernel: %w", err)
	}
	k := &Kernel{
		family: f, name: "kernel", control: b.control, mainThread: newRequester(b.control), steward: newRequester(b.steward), process: process,
		holder: holder, turn: make(chan struct{}, 1),
	}
	k.output.current = b.capture
	k.number = f.number.Add(1)
	k.group, err = f.cfg.Container.NewGroup(fmt.Sprintf("python-%d", k.number), f.cfg.Limits)
	if err != nil {
		_ = process.Signal(unix.SIGKILL)
		b.discard()
		return nil, nil, fmt.Errorf("make a kernel's group: %w", err)
	}
	k.watch()
	if err := f.enter(k); err != nil {
		k.Kill()
		return nil, nil, err
	}
	hello, err := k.awaitReady(ctx)
	if err != nil {
		k.Kill()
		return nil, nil, err
	}
	if hello.View != nil {
		f.view.Store(*hello.View)
	}
	return k, hello.Notices, nil
}

// prepareMove starts, in the background, the wait that moving a process between control
// groups can need, so that it overlaps with the making of the kernel. It is only an
// optimisation; see sandbox.Container.WarmUp.
func (f *Family) prepareMove() {
	f.begin(func() {
		if err := f.cfg.Container.WarmUp(); err != nil {
			f.log.Debug("control groups could not be prepared for a move", "error", err)
		}
	})
}

// awaitReady moves the kernel's processes into its group and waits for the hello.
func (k *Kernel) awaitReady(ctx context.Context) (wireHello, error) {
	if err := k.group.Add(k.process.Pid()); err != nil {
		return wireHello{}, fmt.Errorf("move a kernel into its group: %w", err)
	}
	if k.holder != nil {
		if err := k.group.Add(k.holder.process.Pid()); err != nil {
			return wireHello{}, fmt.Errorf("move a kernel's pid namespace into its group: %w", err)
		}
	}
	hello, err := waitHello(ctx, k.control)
	if errors.Is(err, kernel.ErrGone) {
		return wireHello{}, fmt.Errorf("start a kernel: %w", k.died(false))
	}
	return hello, err
}

// spawn forks a kernel from the zygote. A cold kernel skips the warm-up: its first
// program takes longer, but start and first program together take less time.
func (f *Family) spawn(ctx context.Context, cold bool) (*Kernel, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if cold {
		f.prepareMove() // a caller waits
	}
	b, err := newEndpoints()
	if err != nil {
		return nil, err
	}
	resume(f.zygote)
	answer, files, err := f.control.call(ctx, request{Op: "spawn", Token: hexToken(b.token), Workspace: f.cfg.Workspace, Cold: cold}, b.files...)
	b.handOver()
	if err != nil {
		b.discard()
		return nil, fmt.Errorf("start a kernel: %w", err)
	}
	pidfd, err := singleFile(files)
	if err != nil {
		b.discard()
		return nil, fmt.Errorf("start a kernel: %w", err)
	}
	// If the zygote is gone, the container has inherited its children and reaps them.
	reap := func() { _ = f.control.link.sendRequest(request{Op: "reap", PID: answer.PID}) }
	k, _, err := f.adopt(ctx, b, pidfd, reap, nil)
	return k, err
}

// resume continues a process that the agent's code, which runs as the same user, may
// have stopped. If the process has ended, the next request to it reports that.
func resume(p *sandbox.Process) { _ = p.Signal(unix.SIGCONT) }

// singleFile returns the file of an answer that must come with exactly one.
func singleFile(files []*os.File) (*os.File, error) {
	if len(files) == 1 {
		return files[0], nil
	}
	for _, f := range files {
		f.Close()
	}
	return nil, errFrame
}

// killLate kills the process of a pidfd that arrived after its request was abandoned.
// It does nothing for other files.
func killLate(file *os.File) {
	_ = unix.PidfdSendSignal(int(file.Fd()), unix.SIGKILL, nil, 0)
}

var _ kernel.Kernel = (*Kernel)(nil)
