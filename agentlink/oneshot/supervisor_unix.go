//go:build unix

package oneshot

import (
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/locusrun/locus/node/kernel/shell/command"
)

// On Unix a program is started by a supervisor, a process of this same executable that
// does nothing else. It outlives neither the program nor the agent: when its standard
// input ends, for whatever reason, it kills all that the program has started. So a
// machine whose agent was killed has nothing left of it that runs.

// supervisorName is what a supervisor finds as the name of its program.
const supervisorName = "locus-oneshot"

// supervisorEnv is the environment of a supervisor.
var supervisorEnv = []string{"GOMAXPROCS=2"}

// Descriptors of a supervisor beside its standard ones.
const (
	fdStdout = 3 + iota
	fdStderr
	fdToProgram
	fdFromProgram
)

// order follows the spec on a supervisor's standard input.
type order string

const (
	orderInterrupt order = "interrupt"
	orderKill      order = "kill"
)

// report is what a supervisor says on its standard output, one JSON object a line.
type report struct {
	Started int    `json:"started,omitempty"` // the program's process
	Failed  string `json:"failed,omitempty"`  // why it could not be started
	Exit    *exit  `json:"exit,omitempty"`
	// Over says that all is gone which the program has started, but for Left processes
	// that could not be killed.
	Over bool `json:"over,omitempty"`
	Left int  `json:"left,omitempty"`
}

// RunIfAsked does the work of a supervisor, or of the command primitives, and ends the
// process, if it was started as one. It is to be called first of all in main.
func RunIfAsked() {
	command.RunIfAsked()
	if len(os.Args) > 0 && os.Args[0] == supervisorName {
		if len(os.Args) == 1 {
			supervise()
		} else if pid, err := strconv.Atoi(os.Args[1]); err == nil {
			// It was a warden up to now, whose program has ended: see zygote.py.
			_ = json.NewEncoder(os.Stdout).Encode(report{Over: true, Left: killAll(pid, true)})
		}
		syscall.Exit(0) // the agent waits for it: not os.Exit, which takes a second under the race detector
	}
}

func supervise() {
	runtime.LockOSThread() // the program dies with the thread that has started it
	// Caught and dropped, not ignored: the program would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	adopts := adoptOrphans()
	if limit, ok := processLimit(); ok {
		// The bound is a help and no promise, so a refusal is no error.
		_ = unix.Setrlimit(unix.RLIMIT_NPROC, &limit)
	}
	say := json.NewEncoder(os.Stdout)
	orders := json.NewDecoder(os.Stdin)
	var s spec
	if err := orders.Decode(&s); err != nil {
		return // the agent did not need this one
	}
	pid, err := startProgram(s)
	if err != nil {
		_ = say.Encode(report{Failed: err.Error()})
		return
	}
	for fd := fdStdout; fd <= fdFromProgram; fd++ {
		_ = unix.Close(fd) // the program's alone from here on
	}
	if say.Encode(report{Started: pid}) != nil {
		killAll(pid, adopts)
		return
	}
	var ended, told atomic.Bool
	go obey(orders, pid, &ended, &told)
	e := await(pid)
	ended.Store(true)
	e.Told = told.Load()
	last := report{Exit: &e, Over: adopts && reap()}
	if !last.Over {
		_ = say.Encode(last)
		last = report{Over: true, Left: killAll(pid, adopts)}
	}
	_ = say.Encode(last) // the agent goes on at once, and this process ends beside it
}

func startProgram(s spec) (int, error) {
	stdin := s.Stdin
	if stdin == "" {
		stdin = os.DevNull
	}
	in, err := os.Open(stdin)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	const none = ^uintptr(0)
	files := []uintptr{in.Fd(), fdStdout, fdStderr}
	if s.Talks {
		// At the numbers that they have here, so that the program finds them.
		files = append(files, none, none, fdToProgram, fdFromProgram)
	}
	return syscall.ForkExec(s.Path, s.Args, &syscall.ProcAttr{Dir: s.Dir, Env: s.Env, Files: files, Sys: programAttributes()})
}

// obey carries out orders until they end, and kills then. It notes that one has reached
// the program.
func obey(orders *json.Decoder, pid int, ended, told *atomic.Bool) {
	for {
		var o order
		err := orders.Decode(&o)
		if ended.Load() {
			return // the number may be another process's by now
		}
		told.Store(true)
		switch {
		case err != nil, o == orderKill:
			// The main thread sees the program's end, and kills the rest.
			_ = unix.Kill(pid, unix.SIGKILL)
			return
		case o == orderInterrupt:
			// The program and what it waits for, as a terminal does it.
			_ = unix.Kill(-pid, unix.SIGINT)
		}
	}
}

// await waits for the program's end, and for those of its orphans until then.
func await(pid int) exit {
	for {
		var status unix.WaitStatus
		var used unix.Rusage
		ended, err := unix.Wait4(-1, &status, 0, &used)
		if errors.Is(err, unix.EINTR) || err == nil && ended != pid {
			continue
		}
		if err != nil {
			return exit{}
		}
		e := exit{Known: true, Code: status.ExitStatus(), CPU: time.Duration(used.Utime.Nano() + used.Stime.Nano()), MaxRSS: used.Maxrss * rssUnit}
		if status.Signaled() {
			e.Code, e.Signal = 0, unix.SignalName(status.Signal())
		}
		return e
	}
}

// killAll kills all that the program has started and that can be found, and says how
// many processes are left after killLimit. adopts says that orphans become children of
// this process.
func killAll(pid int, adopts bool) (left int) {
	began := time.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		// The group goes at once, so that a bomb of forks cannot be faster.
		_ = unix.Kill(-pid, unix.SIGKILL)
		if adopts && reap() {
			return 0 // there is nothing that would not be a child by now
		}
		found := offspring(pid)
		for _, p := range found {
			_ = unix.Kill(p, unix.SIGKILL)
		}
		if noChild := reap(); noChild && len(found) == 0 {
			return 0
		}
		if time.Since(began) > killLimit {
			return len(found)
		}
		time.Sleep(pause)
	}
}

// reap takes the statuses of children that have ended, and says whether there is none
// left at all.
func reap() (noChild bool) {
	for {
		ended, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ECHILD):
			return true
		case err != nil || ended == 0:
			return false
		}
	}
}
