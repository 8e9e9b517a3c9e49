package shell

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/kernel/shell/command"
	"github.com/locusrun/locus/node/sandbox"
)

// common is what the kernels that are kept, however they are spoken with, have in
// common.
type common struct {
	family *Family
	kind   kernel.Kind
	log    *slog.Logger
	group  sandbox.Group
	state  *stateFile

	// line is the shell's; another one after code has left the shell. It changes with
	// the turn and mu held.
	line line
	// attend, if not nil, is told of each reply to a request before it is judged.
	attend func(context.Context, reply) error

	// turn holds one token: who has it may send requests and read replies.
	turn chan struct{}
	gone chan struct{} // closed when Kill is through
	// The next six belong to whoever has the turn.
	seq      uint64
	known    *snapshot   // the state after the last call that was asked for a diff
	defined  definitions // nil for a shell that lists its functions
	unknown  error       // why the state is not known, or nil
	stale    bool        // a call has run since
	exitTrap bool        // a program seemed to set an EXIT trap

	interrupted atomic.Bool

	mu      sync.Mutex
	proc    *sandbox.Process
	running *running // nil when idle
	verdict *sandbox.Exit
	cpu     time.Duration // of proc at the last look
}

// called names the kernel in log lines.
func (c *common) called(name string) { c.log = c.family.log.With("kernel", name) }

// mark notes that a program begins, as the caller, or with nil that it has ended.
func (c *common) mark(begins *command.Caller) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = nil
	if begins != nil {
		c.interrupted.Store(false)
		c.running = &running{since: sinceBoot(), caller: begins}
	}
}

// signal sends a signal to the kernel's own process. That it has ended is no error.
func (c *common) signal(sig syscall.Signal) { send(c.log, c.Process(), sig) }

func send(log *slog.Logger, proc *sandbox.Process, sig syscall.Signal) {
	if err := proc.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		log.Error("a shell was not signalled", "signal", sig, "error", err)
	}
}

// farewellTime is how long a session's own EXIT trap may take at its end.
const farewellTime = 500 * time.Millisecond

// farewell lets an idle session run the caller's EXIT trap, if it may have one.
func (c *common) farewell() {
	if c.kind != kernel.Session {
		return
	}
	select {
	case <-c.turn:
	default:
		return // busy: what is killed at work runs no trap
	}
	defer c.giveTurn()
	if !c.exitTrap {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), farewellTime)
	defer cancel()
	if c.line.send(ctx, &request{op: opEnd, seq: c.seq}) != nil {
		return // it has ended already, or is killed next
	}
	select {
	case <-c.Process().Done():
	case <-ctx.Done():
		c.log.Info("a session's EXIT trap was cut off", "after", farewellTime)
	}
}

// running is the call that is at work.
type running struct {
	since  time.Duration // after boot
	caller *command.Caller
}

// tell delivers a message to the program, which may be nil.
func (r *running) tell(m kernel.Message) error {
	if m.Kind != kernel.MessagePrimitive {
		return ErrNoMessages
	}
	if r == nil {
		return ErrIdle
	}
	r.caller.Tell(m.ID, m.Data)
	return nil
}

// usage tells the processor time since the last look and the peak of memory: as the
// shell has told them, else as the system does.
func (c *common) usage(told *cost) (time.Duration, int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if told != nil {
		cpu := max(0, told.cpu-c.cpu)
		c.cpu = told.cpu
		return cpu, told.resident
	}
	var cpu time.Duration
	if stat, err := readStat(c.proc.Pid()); err == nil {
		cpu = max(0, stat.cpu-c.cpu)
		c.cpu = stat.cpu
	}
	rss := c.group.MemoryPeak()
	if rss == 0 {
		rss = peakRSS(c.proc.Pid())
	}
	return cpu, rss
}

// report puts together what is known of a program that ended.
func (c *common) report(p kernel.Program, said reply) kernel.Report {
	code := said.status
	r := kernel.Report{
		ExitCode:    &code,
		Interrupted: c.interrupted.Load() && code == 128+int(syscall.SIGINT),
		Replaced:    c.kind == kernel.Copy,
	}
	r.CPU, r.MaxRSS = c.usage(said.cost)
	c.stale = true
	if p.Diff {
		c.diff(&r)
	}
	return r
}

// died waits for the end of the process and says how it was.
func (c *common) died(started bool) *kernel.Died {
	proc := c.Process()
	<-proc.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.verdict != nil {
		return &kernel.Died{Started: started, Exit: *c.verdict}
	}
	exit := proc.Exit()
	exit.OOM = exit.OOM || exit.Signal == syscall.SIGKILL && c.group.OOMKills() > 0
	return &kernel.Died{Started: started, Exit: exit}
}

// endWith kills the kernel because its program ended $$ in the given way.
func (c *common) endWith(exit sandbox.Exit) {
	c.mu.Lock()
	if c.verdict == nil {
		c.verdict = &exit
	}
	proc := c.proc
	c.mu.Unlock()
	send(c.log, proc, syscall.SIGKILL)
}

// Process implements kernel.Kernel. It is another process after code has left
// the shell.
func (c *common) Process() *sandbox.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proc
}

// Tell implements kernel.Kernel. A shell takes answers to primitives only.
func (c *common) Tell(m kernel.Message) error {
	c.mu.Lock()
	run := c.running
	c.mu.Unlock()
	return run.tell(m)
}

// ErrNoMessages is the error of telling a shell something that is no answer to a
// primitive.
var ErrNoMessages = errors.New("shell: a program in a shell takes no messages but answers to primitives")

// ErrIdle is the error of a message to a kernel that runs no program.
var ErrIdle = errors.New("shell: no program is running")

// Group implements kernel.Kernel.
func (c *common) Group() sandbox.Group { return c.group }

func (c *common) giveTurn() { c.turn <- struct{}{} }

// ErrBusy is the error of what had to wait for the running program to end, and
// was given up: a shell cannot copy itself in the middle of a command.
var ErrBusy = errors.New("shell: the session is running a program")

// ErrNUL is the error of a program with a NUL byte, which no shell can read.
var ErrNUL = errors.New("shell: a program cannot hold a NUL byte")
