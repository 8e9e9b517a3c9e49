package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/locusrun/locus/node/sandbox"
)

// Interrupt implements kernel.Kernel. Like a terminal it sends SIGINT to the shell and to
// the program's foreground processes.
func (c *common) Interrupt(program int) error {
	run, proc := c.interruptible(program)
	if run == nil {
		return nil
	}
	c.interrupted.Store(true)
	return interrupt(c.group, proc, run)
}

// interruptible returns the program with the given number, and its shell, or nil if it has
// ended or has not begun. In the latter case it will be interrupted.
func (c *common) interruptible(program int) (*running, *sandbox.Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch run := c.running; {
	case run == nil || run.program != program:
		c.early = program // if it has ended, no other program has its number
	case sandbox.SinceBoot()-run.since > beginLimit || isAtWork(c.proc):
		return run, c.proc
	default:
		c.interruptSoon(run)
	}
	return nil, nil
}

const (
	// beginLimit is the age at which a program is taken to have begun. It is less than the
	// second that the engine gives an interrupted program.
	beginLimit = 500 * time.Millisecond
	beginPause = time.Millisecond
)

// interruptSoon interrupts a program once it has begun: a shell that waits for its next
// program ignores SIGINT. c.mu is held.
func (c *common) interruptSoon(run *running) {
	run.interrupts.Go(func() {
		limit := time.NewTimer(beginLimit)
		defer limit.Stop()
		pause := time.NewTicker(beginPause)
		defer pause.Stop()
		for begun := false; !begun; {
			select {
			case <-run.ended:
				return
			case <-limit.C:
				begun = true
			case <-pause.C:
				begun = isAtWork(c.Process())
			}
		}
		c.interrupted.Store(true)
		if err := interrupt(c.group, c.Process(), run); err != nil {
			c.log.Warn("a program could not be interrupted", "error", err)
		}
	})
}

// isAtWork reports whether a shell has certainly begun its program. Before that its standard
// output is /dev/null, or the pipe for its replies. If it cannot be read, the shell counts
// as at work.
func isAtWork(shell *sandbox.Process) bool {
	stdout, err := os.Readlink("/proc/" + strconv.Itoa(shell.Pid()) + "/fd/1")
	return err != nil || stdout != os.DevNull && filepath.Base(stdout) != replies
}

// interrupt sends SIGINT to the shell and to the processes of g that started after the
// call and are in the shell's process group. That leaves out processes of earlier calls;
// background processes of a shell without job control ignore SIGINT.
func interrupt(g sandbox.Group, shell *sandbox.Process, run *running) (err error) {
	// As at a terminal, all must get the signal at the same time. Otherwise the rest of a
	// pipeline, or a shell whose command has ended, would continue in between. If freezing
	// fails, interrupt anyway and accept that risk.
	if g.Freeze() == nil {
		defer func() { err = errors.Join(err, g.Thaw()) }()
	}
	pids, err := foreground(g, shell.Pid(), run)
	if err != nil {
		return err
	}
	var errs []error
	// The shell comes first: if its command ended before it has the signal, it would
	// continue with the next command.
	if err := shell.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		errs = append(errs, err)
	}
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it has ended
		}
		err = unix.PidfdSendSignal(fd, syscall.SIGINT, nil, 0)
		if err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, fmt.Errorf("interrupt process %d: %w", pid, err))
		}
		unix.Close(fd)
	}
	return errors.Join(errs...)
}

// foreground lists the processes that the running program has started and may wait for.
func foreground(g sandbox.Group, shell int, run *running) ([]int, error) {
	own, err := sandbox.ReadStat(shell)
	if err != nil {
		return nil, nil // it has ended, and so has the call
	}
	pids, err := g.Pids()
	if err != nil {
		return nil, err
	}
	var found []int
	for _, pid := range pids {
		stat, err := sandbox.ReadStat(pid)
		if err != nil || pid == shell || stat.Group != own.Group || stat.Start < run.since {
			continue
		}
		found = append(found, pid)
	}
	return found, nil
}

// Stack implements kernel.Kernel: the running program's foreground commands, outermost
// first, one per line.
func (c *common) Stack(context.Context) (string, error) {
	c.mu.Lock()
	run, proc := c.running, c.proc
	c.mu.Unlock()
	if run == nil {
		return "", nil
	}
	return stack(c.group, proc.Pid(), run)
}

// maxStack is how many processes Stack lists.
const maxStack = 64

func stack(g sandbox.Group, shell int, run *running) (string, error) {
	pids, err := foreground(g, shell, run)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for i, pid := range pids {
		if i == maxStack {
			fmt.Fprintf(&b, "and %d more\n", len(pids)-i)
			break
		}
		raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if err != nil || len(raw) == 0 {
			continue
		}
		words := strings.Split(strings.TrimSuffix(string(raw[:min(len(raw), 4096)]), "\x00"), "\x00")
		if words[len(words)-1] == "" || strings.Contains(string(raw), "__locus_") {
			b.WriteString("(a subshell)\n")
			continue
		}
		b.WriteString(strings.Join(words, " "))
		b.WriteByte('\n')
	}
	if b.Len() == 0 {
		return "the shell itself is at work\n", nil
	}
	return b.String(), nil
}
