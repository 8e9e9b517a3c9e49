package oneshot

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// RunIfAsked does nothing on Windows, where a job object takes the place of a supervisor.
func RunIfAsked() {}

// tree is a program with all its descendants: a job object. Windows kills all processes in
// it when its last handle is closed, also when the agent ends.
type tree struct {
	pipes
	theirs []*os.File
	mark   string
	job    windows.Handle
	cmd    *exec.Cmd      // nil before start
	own    windows.Handle // handle of the program's process
	told   atomic.Bool    // an order to end has reached the program

	ended chan struct{} // closed when the program's own process has ended
	kills sync.Once

	// Each is written before the corresponding channel is closed.
	exit exit
	left int // always 0: a job ends as a whole
}

func newTree(mark string) (*tree, error) {
	t := &tree{mark: mark, ended: make(chan struct{})}
	var err error
	if t.theirs, err = t.pipes.open(); err != nil {
		t.closeTheirs()
		return nil, err
	}
	if t.job, err = windows.CreateJobObject(nil, nil); err == nil {
		limit := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{
			LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
		}}
		_, err = windows.SetInformationJobObject(t.job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&limit)), uint32(unsafe.Sizeof(limit)))
	}
	if err != nil {
		t.closeTheirs()
		return nil, errors.Join(fmt.Errorf("make a job: %w", err), t.pipes.close())
	}
	return t, nil
}

func (t *tree) closeTheirs() {
	for _, f := range t.theirs {
		f.Close()
	}
	t.theirs = nil
}

// start starts the program and puts it into the job. A process that the program starts
// before that is not in the job. In practice there is none: Python waits for its code until
// later, and PowerShell takes much longer to read its script.
func (t *tree) start(s spec) error {
	defer t.closeTheirs()
	if err := t.launch(s); err != nil {
		return fmt.Errorf("start a program: %w", err)
	}
	go func() {
		_ = t.cmd.Wait() // ProcessState has the status
		t.exit = t.exitOf(t.cmd.ProcessState)
		close(t.ended)
	}()
	return nil
}

func (t *tree) launch(s spec) error {
	stdin := s.Stdin
	if stdin == "" {
		stdin = os.DevNull
	}
	in, err := os.Open(stdin)
	if err != nil {
		return err
	}
	defer in.Close()
	attributes := &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
	if s.Talks {
		for _, f := range t.theirs[2:] {
			if err := windows.SetHandleInformation(windows.Handle(f.Fd()), windows.HANDLE_FLAG_INHERIT, windows.HANDLE_FLAG_INHERIT); err != nil {
				return err
			}
			attributes.AdditionalInheritedHandles = append(attributes.AdditionalInheritedHandles, syscall.Handle(f.Fd()))
			s.Args = append(s.Args, strconv.FormatUint(uint64(f.Fd()), 10))
		}
	}
	cmd := &exec.Cmd{
		Path: s.Path, Args: s.Args, Env: append(s.Env, t.mark), Dir: s.Dir,
		Stdin: in, Stdout: t.theirs[0], Stderr: t.theirs[1], SysProcAttr: attributes,
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	own, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE|windows.SYNCHRONIZE, false, uint32(cmd.Process.Pid))
	if err == nil {
		if err = windows.AssignProcessToJobObject(t.job, own); err != nil {
			_ = windows.CloseHandle(own)
		}
	}
	if err != nil {
		_ = cmd.Process.Kill() // its children could not be killed
		_ = cmd.Wait()
		return err
	}
	t.cmd, t.own = cmd, own
	return nil
}

// reaches reports whether the program still runs, and if so records that an order to end
// has reached it.
func (t *tree) reaches() bool {
	state, err := windows.WaitForSingleObject(t.own, 0)
	runs := err != nil || state != windows.WAIT_OBJECT_0
	if runs {
		t.told.Store(true)
	}
	return runs
}

// Exit statuses of a process that accessed invalid memory or overflowed its stack.
const (
	accessViolation = 0xC0000005
	stackOverflow   = 0xC00000FD
)

func (t *tree) exitOf(state *os.ProcessState) exit {
	e := exit{Known: true, Told: t.told.Load(), Code: state.ExitCode(), CPU: state.UserTime() + state.SystemTime()}
	if status := uint32(e.Code); status == accessViolation || status == stackOverflow {
		e.Code, e.Signal = 0, "SIGSEGV"
	}
	var used windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	if windows.QueryInformationJobObject(t.job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&used)), uint32(unsafe.Sizeof(used)), nil) == nil {
		e.MaxRSS = int64(used.PeakProcessMemoryUsed) // committed memory, which is what Windows counts
	}
	return e
}

// interrupt interrupts the program. That needs a console, which an agent that runs as a
// service does not have. Without one, the program is killed after the grace period.
func (t *tree) interrupt() error {
	if !t.reaches() {
		return nil
	}
	if err := windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(t.cmd.Process.Pid)); err != nil {
		return fmt.Errorf("interrupt a program: %w", err)
	}
	return nil
}

// kill kills the program and all its descendants, and waits until they are gone.
func (t *tree) kill() {
	t.kills.Do(func() {
		t.closeTheirs()
		if t.cmd != nil {
			t.reaches()
		}
		_ = windows.TerminateJobObject(t.job, 1) // closing the job has the same effect
		if t.cmd != nil {
			defer windows.CloseHandle(t.own)
			timeout := time.NewTimer(killLimit)
			defer timeout.Stop()
			select {
			case <-t.ended:
			case <-timeout.C:
			}
		}
		_ = windows.CloseHandle(t.job)
	})
}

// awaitSupervisor does nothing: there is no supervisor.
func (t *tree) awaitSupervisor() {}
