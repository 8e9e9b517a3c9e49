package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/surfaces"
)

// Fork implements kernel.Kernel. A shell that runs a program can be copied only when the
// program has ended; if ctx ends first, the error wraps ErrBusy.
func (r *resident) Fork(ctx context.Context, kind kernel.Kind, name string) (_ kernel.Kernel, _ []surfaces.Notice, err error) {
	if err := r.takeTurn(ctx); err != nil {
		return nil, nil, r.fail(false, err)
	}
	defer r.giveTurn()
	notices := jobsOf(r.group, r.Process().Pid())
	child, peer, err := r.family.newResident(kind)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil && child.Process() == nil {
			// A copy that appears later finds the channel closed and exits.
			err = errors.Join(err, child.discard())
		}
	}()
	child.channel.token = r.channel.token
	child.log = r.family.log.With("kernel", name)
	child.seq, child.known, child.unknown, child.stale, child.exitTrap = r.seq, r.known, r.unknown, r.stale, r.exitTrap
	req := request{op: opFork, seq: r.seq, code: r.family.folders(), copied: kind == kernel.Copy}
	// The shell is idle and reads the request at once. If ctx ended the send, the shell
	// would have to be killed.
	err = r.channel.send(context.WithoutCancel(ctx), &req, peer, child.state.file)
	peer.Close()
	if err != nil {
		return nil, nil, r.fail(false, err)
	}
	said, pidfd, err := child.channel.next(ctx)
	if errors.Is(err, errGone) {
		select {
		case <-r.Process().Done():
			return nil, nil, r.died(false)
		case <-time.After(endedSoon):
			return nil, nil, errors.New("shell: the shell could not copy itself")
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("copy the shell: %w", err)
	}
	if said.kind != replyHello || pidfd == nil {
		return nil, nil, fmt.Errorf("shell: a copy said %q before its hello", said.kind)
	}
	if err := child.adopt(pidfd); err != nil {
		return nil, nil, err
	}
	if err := r.family.keep(child); err != nil {
		return nil, nil, err
	}
	return child, append(notices, losses(kind, said)...), nil
}

// endedSoon bounds the time between the end of a shell's sockets and that of its process.
const endedSoon = time.Second

// adopt moves the process of a pidfd into the kernel's group and makes it the kernel's own.
func (r *resident) adopt(pidfd *os.File) error {
	proc, err := r.family.cfg.Container.Adopt(pidfd, nil)
	if err != nil {
		return fmt.Errorf("watch the shell: %w", err)
	}
	if err := r.group.Add(proc.Pid()); err != nil {
		return fmt.Errorf("group the shell: %w", err)
	}
	r.watch(proc)
	return nil
}

// folders lists, for the isolation of a copy, the folders that code may write to, the
// workspace first, and the door, whose socket a copy uses. One is in each line.
func (f *Family) folders() string {
	return strings.Join([]string{f.cfg.Workspace, "/tmp", "/var/tmp", "/dev/shm", "=" + f.door.Path()}, "\n")
}

// losses returns notices about the isolation that a copy lacks. Its hello has the errors
// with which isolating the disk (status) and the processes (number) has failed.
func losses(kind kernel.Kind, hello reply) []surfaces.Notice {
	if kind != kernel.Copy {
		return nil
	}
	disk, processes := syscall.Errno(hello.status), syscall.Errno(hello.seq)
	var notices []surfaces.Notice
	if disk != 0 {
		notices = append(notices, diskNotIsolated(disk.Error()))
	}
	if processes != 0 {
		notices = append(notices, processesNotIsolated(processes.Error()))
	}
	return notices
}

// jobsOf returns a notice if the group of an idle shell has other processes, its
// background jobs: a copy does not have them.
func jobsOf(group sandbox.Group, shell int) []surfaces.Notice {
	pids, err := group.Pids()
	if err == nil && !slices.ContainsFunc(pids, func(pid int) bool { return pid != shell }) {
		return nil
	}
	return []surfaces.Notice{{Kind: "jobs", Text: "background jobs stay with the session; the copy cannot wait for them"}}
}

func diskNotIsolated(why string) surfaces.Notice {
	return surfaces.Notice{
		Kind: "disk_not_isolated",
		Text: "disk: not isolated: files that this read-only call writes are the session's own (" + why + ")",
	}
}

func processesNotIsolated(why string) surfaces.Notice {
	return surfaces.Notice{
		Kind: "processes_not_isolated",
		Text: "processes: not isolated: this read-only call can send signals to other processes, change how they run, and change System V objects (" + why + ")",
	}
}
