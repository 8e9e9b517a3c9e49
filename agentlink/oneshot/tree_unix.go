//go:build unix

package oneshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tree is a program with all its descendants, as the agent sees it: a supervisor and the
// agent's ends of its pipes.
type tree struct {
	pipes
	process *os.Process // the supervisor
	await   func()      // waits for the supervisor
	tell    *os.File    // the pipe of orders; closing it makes the supervisor kill everything
	mark    string      // the environment variable that marks the program's processes

	mu     sync.Mutex // held while an order is sent
	orders *json.Encoder

	started         chan struct{} // closed when the program runs, or could not be started
	ended           chan struct{} // closed when the program's own process has ended
	gone            chan struct{} // closed when all processes of the program have ended
	supervisorEnded chan struct{} // closed when the supervisor has ended

	// Each is written before the corresponding channel is closed.
	program int
	failed  error
	exit    exit
	left    int // processes that could not be killed
}

// newTree starts a supervisor, a process of this executable, which waits for its program.
func newTree(mark string) (*tree, error) {
	self, err := selfPath()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	return supervised(mark, func(ends []*os.File) (*os.Process, func(), error) {
		cmd := &exec.Cmd{
			Path: self, Args: []string{supervisorName}, Env: supervisorEnv,
			Stdin: ends[0], Stdout: ends[1], ExtraFiles: ends[2:], SysProcAttr: &syscall.SysProcAttr{Setsid: true},
		}
		if err := cmd.Start(); err != nil {
			return nil, nil, fmt.Errorf("start a supervisor: %w", err)
		}
		return cmd.Process, func() { _ = cmd.Wait() }, nil // its reports say how it ended
	})
}

// supervised returns a tree whose supervisor is started by launch, which gets the
// supervisor's ends of the pipes: orders, reports, and those of the program. launch returns
// the process and a function that waits for it.
func supervised(mark string, launch func(ends []*os.File) (*os.Process, func(), error)) (*tree, error) {
	t := &tree{mark: mark, started: make(chan struct{}), ended: make(chan struct{}), gone: make(chan struct{}), supervisorEnded: make(chan struct{})}
	orders, tell, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	reports, say, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a pipe: %w", err), orders.Close(), tell.Close())
	}
	ends, err := t.pipes.open()
	ends = append([]*os.File{orders, say}, ends...)
	defer func() {
		for _, f := range ends {
			f.Close()
		}
	}()
	if err == nil {
		t.process, t.await, err = launch(ends)
	}
	if err != nil {
		return nil, errors.Join(err, t.pipes.close(), tell.Close(), reports.Close())
	}
	t.tell, t.orders = tell, json.NewEncoder(tell)
	go t.follow(reports)
	return t, nil
}

// start makes the supervisor start a program, and waits until it has done so.
func (t *tree) start(s spec) error {
	s.Env = append(s.Env, t.mark)
	if s.Talks {
		s.Args = append(s.Args, strconv.Itoa(fdToProgram), strconv.Itoa(fdFromProgram))
	}
	if err := t.order(s); err != nil {
		return err
	}
	<-t.started
	return t.failed
}

// follow processes the supervisor's reports until it ends.
func (t *tree) follow(reports *os.File) {
	defer close(t.supervisorEnded)
	defer reports.Close()
	running, ended, over := false, false, false
	for from := json.NewDecoder(reports); ; {
		var r report
		if from.Decode(&r) != nil {
			break
		}
		if r.Started > 0 {
			t.program, running = r.Started, true
			close(t.started)
		}
		if r.Failed != "" {
			t.failed = fmt.Errorf("start a program: %s", r.Failed)
		}
		if r.Exit != nil {
			t.exit, ended = *r.Exit, true
			close(t.ended)
		}
		if r.Over {
			t.left, over = r.Left, true
			close(t.gone)
		}
	}
	t.await()
	if !running {
		if t.failed == nil {
			t.failed = errors.New("start a program: its supervisor has ended")
		}
		close(t.started)
	}
	if running && !over {
		// The supervisor was killed, and the program with it. Other processes of the
		// program are found by the mark in their environment.
		_ = unix.Kill(-t.program, unix.SIGKILL)
		killMarked(t.mark)
	}
	if !ended {
		close(t.ended)
	}
	if !over {
		close(t.gone)
	}
}

// interrupt interrupts the program.
func (t *tree) interrupt() error { return t.order(orderInterrupt) }

// order sends an order to the supervisor. It is not an error if the supervisor has ended.
func (t *tree) order(o any) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.orders.Encode(o)
	if err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("give a supervisor an order: %w", err)
	}
	return nil
}

// kill kills the program and all its descendants, and waits until they are gone.
func (t *tree) kill() {
	_ = t.order(orderKill) // the end of its input has the same effect
	_ = t.tell.Close()
	timeout := time.NewTimer(2 * killLimit)
	defer timeout.Stop()
	select {
	case <-t.gone:
	case <-timeout.C:
		_ = t.process.Kill() // the supervisor does not react
		<-t.gone
	}
}

// awaitSupervisor waits for the end of the supervisor, after kill.
func (t *tree) awaitSupervisor() { <-t.supervisorEnded }
