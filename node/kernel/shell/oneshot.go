package shell

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/surfaces"
)

// oneshot is a shell that waits for one program, runs it as its script, and exits with its
// status. When the program starts, the shell has none of our functions or variables.
type oneshot struct {
	family  *Family
	log     *slog.Logger
	proc    *sandbox.Process
	group   sandbox.Group
	control *control

	used        atomic.Bool
	interrupted atomic.Bool
	using       sync.Mutex // held while Run uses the directory
	mu          sync.Mutex
	running     *running

	kill sync.Once
	gone chan struct{}
}

var _ kernel.Kernel = (*oneshot)(nil)

func (f *Family) makeOneshot(ctx context.Context) (*oneshot, error) {
	dir, name := f.place()
	c, err := f.dialect.newControl(dir, nil)
	if err != nil {
		return nil, err
	}
	proc, group, err := f.spawn(ctx, name, sandbox.Command{Args: f.dialect.once(dir), Env: f.cfg.Env})
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	k := &oneshot{family: f, log: f.log, proc: proc, group: group, control: c, gone: make(chan struct{})}
	go func() {
		<-proc.Done()
		c.ended()
	}()
	return k, f.keep(k)
}

// ErrUsed is the error of a second program for a one-shot.
var ErrUsed = errors.New("shell: this kernel has run its program")

// Run implements kernel.Kernel.
func (k *oneshot) Run(ctx context.Context, p kernel.Program) (kernel.Report, error) {
	if strings.IndexByte(p.Code, 0) >= 0 {
		return kernel.Report{}, ErrNUL
	}
	if k.used.Swap(true) {
		return kernel.Report{}, ErrUsed
	}
	k.using.Lock()
	defer k.using.Unlock()
	out, err := openStreams(k.control.dir, 0)
	if err != nil {
		return kernel.Report{}, err
	}
	out.capture.Attach(p.Tap)
	defer func() {
		if err := errors.Join(out.settle(), out.release()); err != nil {
			k.log.Warn("a call's pipes were not removed", "error", err)
		}
	}()
	caller := k.family.admit(p.Events)
	defer caller.End()
	req := &request{op: opRun, code: p.Code, caller: caller.Name()}
	if p.Stdin != "" {
		req.stdin = true
		if err := out.file("i0", p.Stdin); err != nil {
			return kernel.Report{}, err
		}
	}
	if k.family.dialect.codeInFile {
		if err := out.file("c0", p.Code); err != nil {
			return kernel.Report{}, err
		}
	}
	k.mu.Lock()
	k.running = &running{since: sandbox.SinceBoot(), caller: caller}
	k.mu.Unlock()
	if p.Started != nil {
		p.Started()
	}
	// From here on the program counts as handed over, and ctx has no effect. If the shell
	// ends during the send, that is the end of the program.
	err = k.control.send(context.Background(), req)
	if err != nil && !errors.Is(err, errGone) {
		return kernel.Report{}, err
	}
	<-k.proc.Done()
	return k.report(p)
}

func (k *oneshot) report(p kernel.Program) (kernel.Report, error) {
	exit := k.proc.Exit()
	r := kernel.Report{Replaced: true, CPU: k.proc.CPU(), MaxRSS: k.group.MemoryPeak(), Interrupted: k.interrupted.Load()}
	switch {
	case exit.Known && exit.Signal == 0:
		r.ExitCode = &exit.Code
		r.Interrupted = r.Interrupted && exit.Code == 128+int(syscall.SIGINT)
	case exit.Known && exit.Signal == syscall.SIGINT && r.Interrupted:
		code := 128 + int(syscall.SIGINT)
		r.ExitCode = &code
	default:
		exit.OOM = exit.OOM || exit.Signal == syscall.SIGKILL && k.group.OOMKills() > 0
		return kernel.Report{}, &kernel.Died{Started: true, Exit: exit}
	}
	if p.Diff {
		r.Diff = &surfaces.StateDiff{Added: []string{}, Changed: []string{}, Removed: []string{}}
	}
	return r, nil
}

// Interrupt implements kernel.Kernel. It ends a shell that waits for its program, too.
func (k *oneshot) Interrupt(int) error {
	k.mu.Lock()
	run := k.running
	k.mu.Unlock()
	k.interrupted.Store(true)
	if run == nil {
		run = &running{since: sandbox.SinceBoot()}
	}
	return interrupt(k.group, k.proc, run)
}

// ErrNotCopied is the error of Fork and Inspect on a one-shot.
var ErrNotCopied = errors.New("shell: this kernel holds no session")

// Fork implements kernel.Kernel.
func (k *oneshot) Fork(context.Context, kernel.Kind, string) (kernel.Kernel, []surfaces.Notice, error) {
	return nil, nil, ErrNotCopied
}

// Tell implements kernel.Kernel.
func (k *oneshot) Tell(m kernel.Message) error {
	k.mu.Lock()
	run := k.running
	k.mu.Unlock()
	return run.tell(m)
}

// Inspect implements kernel.Kernel.
func (k *oneshot) Inspect(context.Context, kernel.Detail) (kernel.State, error) {
	return kernel.State{}, ErrNotCopied
}

// Stack implements kernel.Kernel.
func (k *oneshot) Stack(context.Context) (string, error) {
	k.mu.Lock()
	run := k.running
	k.mu.Unlock()
	if run == nil {
		return "", nil
	}
	return stack(k.group, k.proc.Pid(), run)
}

// Group implements kernel.Kernel.
func (k *oneshot) Group() sandbox.Group { return k.group }

// Process implements kernel.Kernel.
func (k *oneshot) Process() *sandbox.Process { return k.proc }

// Kill implements kernel.Kernel.
func (k *oneshot) Kill() {
	k.kill.Do(func() {
		defer close(k.gone)
		if err := k.group.Close(); err != nil {
			k.log.Error("a shell's group was not killed", "error", err)
		}
		if err := k.proc.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
			k.log.Error("a shell was not killed", "error", err)
		}
		<-k.proc.Done()
		k.using.Lock()
		defer k.using.Unlock()
		if err := k.control.close(); err != nil {
			k.log.Warn("a kernel's directory was not removed", "error", err)
		}
		k.family.forget(k)
	})
	<-k.gone
}
