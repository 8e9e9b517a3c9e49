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

// On Unix a program is started by a supervisor: a process of this executable that does
// nothing else. When its standard input ends, for whatever reason, it kills the program
// with all its descendants. So nothing of a program survives the agent, even if the agent
// is killed.

// supervisorName is argv[0] of a supervisor.
const supervisorName = "locus-oneshot"

// supervisorEnv is the environment of a supervisor.
var supervisorEnv = []string{"GOMAXPROCS=2"}

// File descriptors of a supervisor after the standard ones.
const (
	fdStdout = 3 + iota
	fdStderr
	fdToProgram
	fdFromProgram
)

// order is a message on the supervisor's standard input, after the spec.
type order string

const (
	orderInterrupt order = "interrupt"
	orderKill      order = "kill"
)

// report is a message on the supervisor's standard output, one JSON object per line.
type report struct {
	Started int    `json:"started,omitempty"` // the program's process id
	Failed  string `json:"failed,omitempty"`  // why the program could not be started
	Exit    *exit  `json:"exit,omitempty"`
	// Over is true when all processes of the program have ended, except Left ones that
	// could not be killed.
	Over bool `json:"over,omitempty"`
	Left int  `json:"left,omitempty"`
}

// RunIfAsked does the work of a supervisor, or of the command primitives, and exits, if the
// process was started as one. It must be called first in main.
func RunIfAsked() {
	command.RunIfAsked()
	if len(os.Args) > 0 && os.Args[0] == supervisorName {
		if len(os.Args) == 1 {
			supervise()
		} else if pid, err := strconv.Atoi(os.Args[1]); err == nil {
			// This process was the warden of a program that has ended: see zygote.py.
			_ = json.NewEncoder(os.Stdout).Encode(report{Over: true, Left: killAll(pid, true)})
		}
		syscall.Exit(0) // os.Exit takes a second under the race detector, and the agent waits
	}
}

func supervise() {
	runtime.LockOSThread() // the program has Pdeathsig, which is bound to this thread
	// Caught and dropped, not ignored: the program would inherit an ignored signal.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	adopts := adoptOrphans()
	if limit, ok := processLimit(); ok {
		// The limit is best effort.
		_ = unix.Setrlimit(unix.RLIMIT_NPROC, &limit)
	}
	say := json.NewEncoder(os.Stdout)
	orders := json.NewDecoder(os.Stdin)
	var s spec
	if err := orders.Decode(&s); err != nil {
		return // the agent has discarded this supervisor
	}
	pid, err := startProgram(s)
	if err != nil {
		_ = say.Encode(report{Failed: err.Error()})
		return
	}
	for fd := fdStdout; fd <= fdFromProgram; fd++ {
		_ = unix.Close(fd) // only the program uses them
	}
	if say.Encode(report{Started: pid}) != nil {
		killAll(pid, adopts)
		return
	}
	var ended, told atomic.Bool
	go followOrders(orders, pid, &ended, &told)
	e := waitProgram(pid)
	ended.Store(true)
	e.Told = told.Load()
	last := report{Exit: &e, Over: adopts && reap()}
	if !last.Over {
		_ = say.Encode(last)
		last = report{Over: true, Left: killAll(pid, adopts)}
	}
	_ = say.Encode(last) // the agent goes on at once; this process exits meanwhile
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
		// At the same numbers as here, which the program's arguments name.
		files = append(files, none, none, fdToProgram, fdFromProgram)
	}
	return syscall.ForkExec(s.Path, s.Args, &syscall.ProcAttr{Dir: s.Dir, Env: s.Env, Files: files, Sys: programAttributes()})
}

// followOrders executes orders until there are no more, and then kills the program. It sets
// told when an order has reached the program.
func followOrders(orders *json.Decoder, pid int, ended, told *atomic.Bool) {
	for {
		var o order
		err := orders.Decode(&o)
		if ended.Load() {
			return // the process id may be in use by another process
		}
		told.Store(true)
		switch {
		case err != nil, o == orderKill:
			// The main thread notices that the program has ended, and kills the rest.
			_ = unix.Kill(pid, unix.SIGKILL)
			return
		case o == orderInterrupt:
			// To the whole group, as a terminal does it.
			_ = unix.Kill(-pid, unix.SIGINT)
		}
	}
}

// waitProgram waits for the program, and reaps orphans meanwhile.
func waitProgram(pid int) exit {
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

// killAll kills the program and all its descendants that can be found. It returns how many
// are left after killLimit. adopts is true if orphans become children of this process.
func killAll(pid int, adopts bool) (left int) {
	began := time.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		// Kill the group at once, so that a fork bomb cannot outrun the loop below.
		_ = unix.Kill(-pid, unix.SIGKILL)
		if adopts && reap() {
			return 0 // all descendants would be children by now
		}
		found := descendants(pid)
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

// reap reaps children that have ended. It returns true if there are no children left.
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
