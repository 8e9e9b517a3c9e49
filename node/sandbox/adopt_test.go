package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// playZygote starts a shell for each script that it is sent, sends back a pidfd
// and its pid, and waits for the shell only when it is sent that pid.
func playZygote() error {
	c, err := net.FileConn(os.NewFile(3, "tests"))
	if err != nil {
		return err
	}
	conn := c.(*net.UnixConn)
	buf := make([]byte, 64<<10)
	for {
		n, err := conn.Read(buf)
		if err != nil || n == 0 {
			return nil
		}
		var pid int
		if _, err := fmt.Sscanf(string(buf[:n]), "reap %d", &pid); err == nil {
			if _, err := unix.Wait4(pid, nil, 0, nil); err != nil {
				return err
			}
			continue
		}
		pidfd := -1
		pid, err = syscall.ForkExec("/bin/sh", []string{"sh", "-c", string(buf[:n])}, &syscall.ProcAttr{
			Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{PidFD: &pidfd},
		})
		if err != nil {
			return err
		}
		if _, _, err := conn.WriteMsgUnix([]byte(itoa(pid)), unix.UnixRights(pidfd), nil); err != nil {
			return err
		}
		unix.Close(pidfd)
	}
}

// zygote is the tests' end of playZygote.
type zygote struct {
	t       testing.TB
	c       *Container
	process *Process
	conn    *net.UnixConn
	mu      sync.Mutex
	reaped  map[int]bool
}

func newZygote(t testing.TB, c *Container) *zygote {
	t.Helper()
	ours, theirs, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	defer theirs.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Spawn(t.Context(), Command{
		Path: self, Env: append(Environment(c.cfg.Workspace), roleVariable+"=zygote"),
		Files: []*os.File{nil, nil, os.Stderr, theirs},
	})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.FileConn(ours)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &zygote{t: t, c: c, process: p, conn: conn.(*net.UnixConn), reaped: map[int]bool{}}
}

// fork has the zygote start a script and adopts it.
func (z *zygote) fork(script string) *Process {
	z.t.Helper()
	pid, fd := z.start(script)
	p, err := z.c.Adopt(os.NewFile(uintptr(fd), "pidfd"), func() {
		z.mu.Lock()
		defer z.mu.Unlock()
		z.reaped[pid] = true
		z.conn.Write([]byte("reap " + itoa(pid)))
	})
	if err != nil {
		z.t.Fatal(err)
	}
	return p
}

func (z *zygote) start(script string) (pid, pidfd int) {
	z.t.Helper()
	if _, err := z.conn.Write([]byte(script)); err != nil {
		z.t.Fatal(err)
	}
	buf, oob := make([]byte, 64), make([]byte, 64)
	n, oobn, _, _, err := z.conn.ReadMsgUnix(buf, oob)
	if err != nil {
		z.t.Fatal(err)
	}
	fds, err := descriptors(oob[:oobn])
	if err != nil || len(fds) != 1 {
		z.t.Fatalf("the zygote sent %d descriptors, %q: %v", len(fds), buf[:n], err)
	}
	if _, err := fmt.Sscan(string(buf[:n]), &pid); err != nil {
		z.t.Fatal(err)
	}
	return pid, fds[0]
}

func TestExitsOfAdopted(t *testing.T) {
	inModes(t, func(t *testing.T, m mode) {
		z := newZygote(t, open(t, m.set))
		for script, want := range map[string]Exit{
			"exit 0":        {Known: true},
			"exit 7":        {Known: true, Code: 7},
			"kill -9 $$":    {Known: true, Signal: syscall.SIGKILL},
			"kill -SEGV $$": {Known: true, Signal: syscall.SIGSEGV},
		} {
			p := z.fork(script)
			waitFor(t, p.Done(), "the end of the adopted "+script)
			if p.Exit() != want {
				t.Errorf("%s: %+v", script, p.Exit())
			}
			pid := p.Pid()
			eventually(t, "the zombie is waited for", func() bool {
				_, err := ReadStat(pid)
				return gone(err)
			})
		}
		z.mu.Lock()
		defer z.mu.Unlock()
		if len(z.reaped) != 4 {
			t.Errorf("%d reaped", len(z.reaped))
		}
	})
}

func TestAdoptedOutlivesItsParent(t *testing.T) {
	z := newZygote(t, open(t))
	p := z.fork("sleep 1000; exit 1")
	if err := z.process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitFor(t, z.process.Done(), "the zygote's end")
	select {
	case <-p.Done():
		t.Fatal("it ended with its parent")
	default:
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	waitFor(t, p.Done(), "its own end")
	// The keeper waits for it at once, so only newer kernels still know how it ended.
	if e := p.Exit(); e.Known && e.Signal != syscall.SIGTERM {
		t.Errorf("exit is %+v", e)
	}
}

func TestAdoptRefusesOutsiders(t *testing.T) {
	c := open(t)
	other := open(t)
	p, _ := shell(t, other, nil, "exec sleep 1000")
	for name, pid := range map[string]int{"the node": os.Getpid(), "init": 1, "another container's": p.Pid()} {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Adopt(os.NewFile(uintptr(fd), "pidfd"), nil); err == nil || pid != 1 && !errors.Is(err, errNotInside) {
			t.Errorf("%s was taken: %v", name, err)
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	if _, err := c.Adopt(r, nil); err == nil {
		t.Error("a pipe was taken")
	}
}
