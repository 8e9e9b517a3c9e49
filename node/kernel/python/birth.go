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

// birth is what a kernel is given before its process exists: two control sockets,
// the token, and the first pair of output pipes.
type birth struct {
	token            []byte
	control, steward *link
	capture          *kernel.Capture
	// files are the process's ends, in the order of the protocol.
	files []*os.File
}

func newBirth() (*birth, error) {
	b := &birth{token: newToken()}
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

// handOver closes the process's ends, which the process has by now.
func (b *birth) handOver() {
	for _, f := range b.files {
		f.Close()
	}
	b.files = nil
}

// discard gives everything up. A process that has the other ends sees the end of
// its sockets, and ends.
func (b *birth) discard() {
	b.handOver()
	b.control.close()
	if b.steward != nil {
		b.steward.close()
	}
	if b.capture != nil {
		b.capture.Close()
	}
}

// raise makes a kernel of a process that was forked for a birth: puts it and its
// companions into a group of their own, and waits until it says that it is ready.
// It owns the pidfd. On an error the process is killed.
func (f *Family) raise(ctx context.Context, b *birth, pidfd *os.File, reap func(), holder *holder) (*Kernel, []surfaces.Notice, error) {
	process, err := f.cfg.Container.Adopt(pidfd, reap)
	if err != nil {
		b.discard()
		return nil, nil, fmt.Errorf("adopt a kernel: %w", err)
	}
	k := &Kernel{
		family: f, name: "kernel", control: b.control, idle: newAsker(b.control), steward: newAsker(b.steward), process: process,
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
	hello, err := k.settle(ctx)
	if err != nil {
		k.Kill()
		return nil, nil, err
	}
	if hello.View != nil {
		f.view.Store(*hello.View)
	}
	return k, hello.Notices, nil
}

// stir lets what moving a kernel into its group would wait for go on while the kernel is
// made. Without it the kernel is only ready later.
func (f *Family) stir() {
	f.begin(func() {
		if err := f.cfg.Container.Stir(); err != nil {
			f.log.Debug("nothing could be stirred", "error", err)
		}
	})
}

// settle moves the kernel's processes into its group and waits for its hello.
func (k *Kernel) settle(ctx context.Context) (wireHello, error) {
	if err := k.group.Add(k.process.Pid()); err != nil {
		return wireHello{}, fmt.Errorf("take a kernel into its group: %w", err)
	}
	if k.holder != nil {
		if err := k.group.Add(k.holder.process.Pid()); err != nil {
			return wireHello{}, fmt.Errorf("take a kernel's namespace into its group: %w", err)
		}
	}
	hello, err := waitHello(ctx, k.control)
	if errors.Is(err, kernel.ErrGone) {
		return wireHello{}, fmt.Errorf("start a kernel: %w", k.died(false))
	}
	return hello, err
}

// spawn forks a kernel from the zygote. A cold one is ready sooner, and its first
// program takes longer: together they are quicker.
func (f *Family) spawn(ctx context.Context, cold bool) (*Kernel, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if cold {
		f.stir() // somebody waits
	}
	b, err := newBirth()
	if err != nil {
		return nil, err
	}
	letGoOn(f.zygote)
	answer, files, err := f.ask.ask(ctx, request{Op: "spawn", Token: hexToken(b.token), Workspace: f.cfg.Workspace, Cold: cold}, b.files...)
	b.handOver()
	if err != nil {
		b.discard()
		return nil, fmt.Errorf("start a kernel: %w", err)
	}
	pidfd, err := onlyFile(files)
	if err != nil {
		b.discard()
		return nil, fmt.Errorf("start a kernel: %w", err)
	}
	// A zygote that is gone leaves its children to the container, which reaps them.
	reap := func() { _ = f.ask.link.sendRequest(request{Op: "reap", PID: answer.PID}) }
	k, _, err := f.raise(ctx, b, pidfd, reap, nil)
	return k, err
}

// letGoOn lets a process go on that code of the agent, which is of the same user, may have
// stopped. One that has ended is noticed by who asks it.
func letGoOn(p *sandbox.Process) { _ = p.Signal(unix.SIGCONT) }

// onlyFile gives the one file of an answer that has to have one.
func onlyFile(files []*os.File) (*os.File, error) {
	if len(files) == 1 {
		return files[0], nil
	}
	for _, f := range files {
		f.Close()
	}
	return nil, errFrame
}

// killLate kills the process of a pidfd that came when nobody waited any more. For
// other files it does nothing.
func killLate(file *os.File) {
	_ = unix.PidfdSendSignal(int(file.Fd()), unix.SIGKILL, nil, 0)
}

var _ kernel.Kernel = (*Kernel)(nil)
