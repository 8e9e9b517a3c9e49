package sandbox

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Process is one process inside a container. Its methods may be called at the
// same time.
type Process struct {
	pid   int
	pidfd int
	// reported is closed when the keeper told the exit of a process that it
	// started; nil for an adopted one. status is set before.
	reported chan struct{}
	status   unix.WaitStatus
	reap     func()

	done   chan struct{}
	settle sync.Once
	exit   Exit

	mu     sync.Mutex
	closed bool // the pidfd is
}

// Pid is the process's id as the node sees it. After Done it may belong to
// another process.
func (p *Process) Pid() int { return p.pid }

// Done is closed when the process has ended and its exit is known as well as it
// can be.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit says how the process ended. It is valid only after Done.
func (p *Process) Exit() Exit {
	select {
	case <-p.done:
		return p.exit
	default:
		return Exit{}
	}
}

// GiveUp ends the wait for a process that is being killed, as one may be for seconds that
// has started thousands: Done is closed, and Exit says that it was killed. It does nothing
// to a process that has ended.
func (p *Process) GiveUp() { p.end(Exit{Known: true, Signal: syscall.SIGKILL}) }

// end says how the process ended, once.
func (p *Process) end(exit Exit) {
	p.settle.Do(func() {
		p.exit = exit
		close(p.done)
	})
}

// Signal sends a signal. It never reaches another process that got the same id;
// when the process has ended the error is os.ErrProcessDone.
func (p *Process) Signal(s syscall.Signal) error { return p.send(s, 0) }

// SignalMain sends a signal to the process's first thread. One that is for the process goes to
// whichever thread takes it first, and after a thaw all of them wake at once. Before Linux 6.9
// it is for the process.
func (p *Process) SignalMain(s syscall.Signal) error {
	err := p.send(s, unix.PIDFD_SIGNAL_THREAD)
	if errors.Is(err, unix.EINVAL) {
		return p.send(s, 0)
	}
	return err
}

func (p *Process) send(s syscall.Signal, flags int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return os.ErrProcessDone
	}
	err := unix.PidfdSendSignal(p.pidfd, s, nil, flags)
	if gone(err) {
		return os.ErrProcessDone
	}
	return err
}

// closePidfd is called once, when nobody watches the pidfd any more.
func (p *Process) closePidfd() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	unix.Close(p.pidfd)
}

// readExit learns the status of an adopted process that has ended: from the
// zombie if it is still there, else from what the kernel keeps for a pidfd.
func readExit(pid, pidfd int) Exit {
	// The order matters: a process that is not the zombie's pidfd any more has
	// been reaped, and its number may have been given to another.
	s, err := readStat(pid)
	if err == nil && s.dead() {
		if now, err := pidOf(pidfd); err == nil && now == pid {
			return ExitOf(syscall.WaitStatus(s.exitCode))
		}
	}
	info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
	if err := unix.IoctlPidfdInfo(pidfd, &info); err == nil && info.Mask&unix.PIDFD_INFO_EXIT != 0 {
		return ExitOf(syscall.WaitStatus(info.Exit_code))
	}
	return Exit{}
}

// pidOf tells whose pidfd it is, as this process sees pids. The error wraps
// os.ErrProcessDone when the process has been reaped.
func pidOf(pidfd int) (int, error) {
	b, err := readReady("/proc/self/fdinfo/" + strconv.Itoa(pidfd))
	if err != nil {
		return 0, err
	}
	field, ok := procField(b, "Pid")
	if !ok {
		return 0, fmt.Errorf("sandbox: descriptor %d is not a pidfd", pidfd)
	}
	pid, err := strconv.Atoi(field)
	if err != nil {
		return 0, err
	}
	if pid <= 0 {
		return 0, fmt.Errorf("sandbox: %w", os.ErrProcessDone)
	}
	return pid, nil
}
