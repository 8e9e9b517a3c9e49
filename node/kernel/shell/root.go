package shell

import (
	"context"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/locusrun/locus/node/sandbox"
)

// root is the process that $$ names in a session and in all copies of it: a
// dormant shell, so that a copy that kills $$ does not kill the session. What is
// sent to it is passed on to the kernel that is at work, and who works while it
// dies is taken to have killed itself.
type root struct {
	proc    *sandbox.Process
	group   sandbox.Group
	control *control
	log     *slog.Logger
	done    chan struct{} // its goroutine ended

	mu      sync.Mutex
	members int
	working map[*session]struct{}
}

func newRoot(proc *sandbox.Process, group sandbox.Group, control *control, log *slog.Logger) *root {
	r := &root{
		proc: proc, group: group, control: control, log: log,
		done: make(chan struct{}), working: make(map[*session]struct{}),
	}
	go r.watch()
	return r
}

var signalsByName = map[string]syscall.Signal{
	"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT,
	"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "TERM": syscall.SIGTERM,
	"ALRM": syscall.SIGALRM, "WINCH": syscall.SIGWINCH, "CONT": syscall.SIGCONT,
	"URG": syscall.SIGURG, "IO": syscall.SIGIO, "PROF": syscall.SIGPROF, "VTALRM": syscall.SIGVTALRM,
}

// watch passes signals on until the root is dead.
func (r *root) watch() {
	defer close(r.done)
	go func() {
		<-r.proc.Done()
		r.control.ended()
	}()
	for {
		said, _, err := r.control.next(context.Background())
		if err != nil {
			break
		}
		sig, known := signalsByName[said.signal]
		s := r.culprit()
		if said.kind != saySignal || !known || s == nil {
			continue
		}
		if err := s.Process().Signal(sig); err != nil {
			r.log.Debug("a signal to $$ could not be passed on", "signal", said.signal, "error", err)
		}
	}
	<-r.proc.Done()
	if s := r.culprit(); s != nil {
		s.endWith(r.proc.Exit())
	}
}

// dying reports whether the root is dead or has been told to die: it has no memory
// left, or a SIGKILL waits for it.
func (r *root) dying() bool {
	select {
	case <-r.proc.Done():
		return true
	default:
	}
	status, err := os.ReadFile("/proc/" + strconv.Itoa(r.proc.Pid()) + "/status")
	if err != nil {
		return true
	}
	alive := false
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "VmSize":
			alive = true
		case "SigPnd", "ShdPnd":
			pending, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			if err == nil && pending&(1<<(syscall.SIGKILL-1)) != 0 {
				return true
			}
		}
	}
	return !alive
}

// culprit is the only kernel at work, or nil.
func (r *root) culprit() *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.working) != 1 {
		return nil
	}
	for s := range r.working {
		return s
	}
	return nil
}

func (r *root) join() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.members++
}

// work marks that a kernel begins or ends a program.
func (r *root) work(s *session, begins bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if begins {
		r.working[s] = struct{}{}
	} else {
		delete(r.working, s)
	}
}

// leave ends the root with its last member.
func (r *root) leave() {
	r.mu.Lock()
	r.members--
	last := r.members == 0
	r.mu.Unlock()
	if !last {
		return
	}
	if err := r.group.Close(); err != nil {
		r.log.Error("the root of a session was not killed", "error", err)
	}
	<-r.done
	if err := r.control.close(); err != nil && !os.IsNotExist(err) {
		r.log.Warn("a kernel's directory was not removed", "error", err)
	}
}
