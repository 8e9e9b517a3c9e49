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

// root is the process that $$ names in a session and in all copies of it. It is a dormant
// shell, so a copy that kills $$ does not kill the session. It forwards the signals that
// it receives to the session that runs a program. If it dies, that session counts as
// having killed itself.
type root struct {
	proc    *sandbox.Process
	group   sandbox.Group
	control *control
	log     *slog.Logger
	done    chan struct{} // closed when watch has returned

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

// watch forwards signals until the root has ended.
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
		s := r.active()
		if said.kind != replySignal || !known || s == nil {
			continue
		}
		if err := s.Process().Signal(sig); err != nil {
			r.log.Debug("cannot forward a signal to $$", "signal", said.signal, "error", err)
		}
	}
	<-r.proc.Done()
	if s := r.active(); s != nil {
		s.endWith(r.proc.Exit())
	}
}

// dying reports whether the root has ended or is about to: its memory is released, or a
// SIGKILL is pending.
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

// active returns the session that runs a program, or nil if there is not exactly one.
func (r *root) active() *session {
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

// work records that a session starts or ends a program.
func (r *root) work(s *session, begins bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if begins {
		r.working[s] = struct{}{}
	} else {
		delete(r.working, s)
	}
}

// leave removes a member. The last one ends the root.
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
