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

// common is the shared part of session and resident, the two kinds of kernel that keep
// state. They differ in how they talk to the shell.
type common struct {
	family *Family
	kind   kernel.Kind
	log    *slog.Logger
	group  sandbox.Group
	state  *stateFile

	// line is the connection to the shell. It is replaced when code has left the shell,
	// with both the turn and mu held.
	line line
	// onReply, if not nil, handles each reply before await looks at it.
	onReply func(context.Context, reply) error

	// turn is a lock that holds one token: its owner may send requests and read replies.
	turn chan struct{}
	gone chan struct{} // closed when Kill has finished
	// The turn protects the next six.
	seq      uint64
	known    *snapshot   // the state after the last call with a diff
	defined  definitions // nil for a shell that can list its functions
	unknown  error       // why known is not valid, or nil
	stale    bool        // a call has run since known was taken
	exitTrap bool        // a program seems to have set an EXIT trap

	interrupted atomic.Bool

	mu      sync.Mutex
	proc    *sandbox.Process
	running *running // nil when idle
	early   int      // the number of a program that was interrupted before it was handed over
	verdict *sandbox.Exit
	cpu     time.Duration // of proc when usage was last called
}

// called names the kernel in log lines.
func (c *common) called(name string) { c.log = c.family.log.With("kernel", name) }

// mark records that a program starts, for the caller.
func (c *common) mark(program int, caller *command.Caller) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interrupted.Store(false)
	c.running = &running{program: program, since: sandbox.SinceBoot(), caller: caller, ended: make(chan struct{})}
	if c.early == program {
		c.interruptSoon(c.running)
	}
}

// unmark records that the program has ended. Nothing interrupts it after that.
func (c *common) unmark() {
	c.mu.Lock()
	run := c.running
	c.running = nil
	c.mu.Unlock()
	close(run.ended)
	run.interrupts.Wait()
}

// signal sends a signal to the kernel's own process, if that has not ended.
func (c *common) signal(sig syscall.Signal) { send(c.log, c.Process(), sig) }

func send(log *slog.Logger, proc *sandbox.Process, sig syscall.Signal) {
	if err := proc.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		log.Error("a shell was not signalled", "signal", sig, "error", err)
	}
}

// exitTrapLimit bounds the EXIT trap that a session runs when it is killed.
const exitTrapLimit = 500 * time.Millisecond

// runExitTrap makes an idle session run the caller's EXIT trap, if it may have one.
func (c *common) runExitTrap() {
	if c.kind != kernel.Session {
		return
	}
	select {
	case <-c.turn:
	default:
		return // a session that is killed while busy runs no trap
	}
	defer c.giveTurn()
	if !c.exitTrap {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), exitTrapLimit)
	defer cancel()
	if c.line.send(ctx, &request{op: opEnd, seq: c.seq}) != nil {
		return // it has ended, or will be killed next
	}
	select {
	case <-c.Process().Done():
	case <-ctx.Done():
		c.log.Info("a session's EXIT trap was cut off", "after", exitTrapLimit)
	}
}

// running is the call that runs.
type running struct {
	program int
	since   time.Duration // its start, as time since boot
	caller  *command.Caller
	ended   chan struct{} // closed at its end
	// interrupts are the goroutines that wait until they can interrupt it.
	interrupts sync.WaitGroup
}

// tell delivers a message to the running program; r is nil if none runs.
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

// usage returns the CPU time since the last call of usage and the peak memory in bytes,
// as the shell reported them or else from the operating system.
func (c *common) usage(told *cost) (time.Duration, int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if told != nil {
		cpu := max(0, told.cpu-c.cpu)
		c.cpu = told.cpu
		return cpu, told.resident
	}
	var cpu time.Duration
	if stat, err := sandbox.ReadStat(c.proc.Pid()); err == nil {
		used := stat.CPU + stat.ChildrenCPU
		cpu, c.cpu = max(0, used-c.cpu), used
	}
	rss := c.group.MemoryPeak()
	if rss == 0 {
		rss = peakRSS(c.proc.Pid())
	}
	return cpu, rss
}

// report makes the report of a program that has ended.
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

// died waits for the end of the process and returns the error that describes it.
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

// endWith kills the kernel because its program has ended the process $$, and makes died
// report the given exit.
func (c *common) endWith(exit sandbox.Exit) {
	c.mu.Lock()
	if c.verdict == nil {
		c.verdict = &exit
	}
	proc := c.proc
	c.mu.Unlock()
	send(c.log, proc, syscall.SIGKILL)
}

// Process implements kernel.Kernel. The process changes when code has left the shell.
func (c *common) Process() *sandbox.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proc
}

// setProcess makes a process the kernel's own.
func (c *common) setProcess(proc *sandbox.Process) {
	// If it has ended already, its CPU time does not matter.
	stat, _ := sandbox.ReadStat(proc.Pid())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.proc, c.cpu = proc, stat.CPU+stat.ChildrenCPU
}

// Tell implements kernel.Kernel. Shells accept only answers to primitives.
func (c *common) Tell(m kernel.Message) error {
	c.mu.Lock()
	run := c.running
	c.mu.Unlock()
	return run.tell(m)
}

// ErrNoMessages is the error of a message to a shell that is not an answer to a
// primitive.
var ErrNoMessages = errors.New("shell: a program in a shell takes no messages but answers to primitives")

// ErrIdle is the error of a message to a kernel that runs no program.
var ErrIdle = errors.New("shell: no program is running")

// Group implements kernel.Kernel.
func (c *common) Group() sandbox.Group { return c.group }

func (c *common) giveTurn() { c.turn <- struct{}{} }

// ErrBusy is the error of an operation whose context ended while it waited for the
// running program: a shell cannot copy itself in the middle of a command.
var ErrBusy = errors.New("shell: the session is running a program")

// ErrNUL is the error of a program with a NUL byte, which no shell can read.
var ErrNUL = errors.New("shell: a program cannot hold a NUL byte")
