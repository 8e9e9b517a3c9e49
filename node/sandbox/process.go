package sandbox

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process is one process inside a container. It is safe for concurrent use.
type Process struct {
	pid   int
	pidfd int
	// reported is closed when the keeper has reported the exit of a process that it has
	// started; status and cpu are set before. It is nil for an adopted process.
	reported chan struct{}
	status   unix.WaitStatus
	cpu      time.Duration
	reap     func()

	done   chan struct{}
	settle sync.Once
	exit   Exit

	mu     sync.Mutex
	closed bool // whether the pidfd is closed
}

// Pid returns the process's pid in the node's namespace. After Done it may be reused.
func (p *Process) Pid() int { return p.pid }

// Done is closed when the process has ended and its exit is determined.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit returns how the process ended. It is valid only after Done.
func (p *Process) Exit() Exit {
	select {
	case <-p.done:
		return p.exit
	default:
		return Exit{}
	}
}

// CPU returns the CPU time of a process that has ended, with that of the children that it has
// waited for. It is 0 if the keeper has not reported it.
func (p *Process) CPU() time.Duration {
	if p.reported == nil {
		return 0
	}
	select {
	case <-p.reported:
		return p.cpu
	default:
		return 0
	}
}

// Abandon ends the wait for a process that is being killed, which can take seconds if it has
// started thousands: it closes Done, and Exit reports SIGKILL. It does nothing if the
// process has ended.
func (p *Process) Abandon() { p.end(Exit{Known: true, Signal: syscall.SIGKILL}) }

// end sets the exit and closes done, once.
func (p *Process) end(exit Exit) {
	p.settle.Do(func() {
		p.exit = exit
		close(p.done)
	})
}

// Signal sends a signal. It never reaches another process that has got the same pid. If the
// process has ended, the error is os.ErrProcessDone.
func (p *Process) Signal(s syscall.Signal) error { return p.send(s, 0) }

// SignalMainThread sends a signal to the process's main thread. Any thread may take a signal that
// is sent to the process; after a thaw, for example, all threads wake at the same time.
// Before Linux 6.9 SignalMainThread is the same as Signal.
func (p *Process) SignalMainThread(s syscall.Signal) error {
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

// closePidfd is called once, when the pidfd is no longer watched.
func (p *Process) closePidfd() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	unix.Close(p.pidfd)
}

// readExit returns the exit of an adopted process that has ended: from the zombie if it
// still exists, else from the pidfd, if the operating system supports that.
func readExit(pid, pidfd int) Exit {
	// The order matters: the pid may have been reused before readStat. If the pidfd still
	// has that pid afterwards, the zombie was not reaped in between.
	s, err := ReadStat(pid)
	if err == nil && s.Dead() {
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

// pidOf returns the pid of a pidfd's process, in this process's pid namespace. If the
// process has been reaped, the error wraps os.ErrProcessDone.
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
