package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// startTime bounds the start of a keeper, in addition to the context.
const startTime = 20 * time.Second

// maxComplaint bounds the part of a keeper's standard error that is logged, in bytes.
const maxComplaint = 16 << 10

// keeperProcess is the node's side of the keeper's process.
type keeperProcess struct {
	pid   int
	pidfd int
	ended chan struct{} // closed when it was reaped
	exit  Exit          // valid after ended
	said  chan struct{} // closed at the end of its standard error
}

// kill kills the keeper, and with it everything in its pid namespace.
func (k *keeperProcess) kill() {
	select {
	case <-k.ended:
	default:
		// It fails only if the keeper has ended meanwhile.
		_ = unix.PidfdSendSignal(k.pidfd, unix.SIGKILL, nil, 0)
	}
}

// release waits for the keeper's end and closes its pidfd.
func (k *keeperProcess) release() {
	<-k.ended
	<-k.said
	unix.Close(k.pidfd)
}

// start starts the keeper, with as much isolation as the machine allows.
func (c *Container) start(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if !c.cfg.NoCgroups {
		if c.cgroups, err = newContainerCgroups(c.cfg.Limits); err != nil {
			c.log.Warn("no control groups for a container", "error", err)
			c.enforced.note("control groups: %v", err)
		}
	}
	defer func() {
		if err != nil && c.cgroups != nil {
			err = errors.Join(err, c.cgroups.remove())
		}
	}()
	if c.devNull, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			c.devNull.Close()
		}
	}()
	if c.watch, err = newWatcher(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			c.watch.close()
		}
	}()
	ready, err := c.startKeeper(ctx)
	if err != nil {
		return err
	}
	c.learn(ready)
	if l := c.cfg.Limits.Memory; l > 0 && (c.cgroups == nil || !c.cgroups.boundsMemory()) {
		c.sample(c.tag, l)
	}
	return nil
}

// startKeeper tries to start the keeper with namespaces first, then without.
func (c *Container) startKeeper(ctx context.Context) (*readyReport, error) {
	if !c.cfg.NoNamespaces {
		ready, err := c.tryKeeper(ctx, true)
		if err == nil || ctx.Err() != nil {
			return ready, err
		}
		c.log.Warn("no namespaces for a container", "error", err)
		c.enforced.note("namespaces: %v", err)
	}
	return c.tryKeeper(ctx, false)
}

func (c *Container) tryKeeper(ctx context.Context, namespaces bool) (*readyReport, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	l, err := newLink(ours)
	if err != nil {
		theirs.Close()
		return nil, err
	}
	k, err := c.launch(theirs, namespaces)
	theirs.Close()
	if err != nil {
		l.close()
		return nil, err
	}
	ready, err := c.greet(ctx, l, k, namespaces)
	if err != nil {
		k.kill()
		l.close()
		k.release()
		return nil, err
	}
	c.keeper, c.link = k, l
	c.enforced.UserNamespace, c.enforced.PIDNamespace, c.enforced.IPCNamespace = namespaces, namespaces, namespaces
	return ready, nil
}

// greet moves the keeper into the container's control groups, before it has children, and
// makes it set up the inside.
func (c *Container) greet(ctx context.Context, l *link, k *keeperProcess, namespaces bool) (*readyReport, error) {
	if c.cgroups != nil {
		if err := c.cgroups.takeKeeper(k.pid); err != nil {
			return nil, fmt.Errorf("moving the keeper into its control groups: %w", err)
		}
	}
	order := &setupOrder{Workspace: c.cfg.Workspace, Hide: c.cfg.Hide, Show: c.cfg.Show, Tag: c.tag, Namespaces: namespaces}
	if namespaces && os.Geteuid() != 0 && (c.cgroups == nil || !c.cgroups.boundsProcesses()) {
		order.Processes = c.cfg.Limits.Processes
	}
	var files []int
	if c.cfg.Leash != nil && c.cgroups != nil && c.cgroups.code != "" {
		freeze, err := os.OpenFile(filepath.Join(c.cgroups.code, "cgroup.freeze"), os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		defer freeze.Close()
		order.Leash, files = true, []int{int(c.cfg.Leash.file.Fd()), int(freeze.Fd())}
	}
	if err := l.write(message{Kind: messageSetup, Setup: order}, files...); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { l.conn.SetReadDeadline(time.Unix(1, 0)) })
	m, fds, err := l.read()
	closeAll(fds)
	if !stop() {
		return nil, fmt.Errorf("waiting for the keeper: %w", context.Cause(ctx))
	}
	if err != nil {
		return nil, fmt.Errorf("the keeper ended before it was ready: %w", err)
	}
	if m.Kind != messageReady || m.Ready == nil {
		return nil, fmt.Errorf("the keeper answers %q", m.Kind)
	}
	if m.Ready.Fatal != "" {
		return nil, errors.New(m.Ready.Fatal)
	}
	return m.Ready, nil
}

// launch starts the keeper's process and a goroutine that waits for it. The goroutine stays
// locked to the thread that forked, because the operating system sends the parent-death
// signal when that thread ends, not when the process ends. The signal is for a keeper that
// cannot notice the end-of-file of its socket.
func (c *Container) launch(socket *os.File, namespaces bool) (*keeperProcess, error) {
	errR, errW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(err, errR.Close(), errW.Close())
	}
	k := &keeperProcess{pidfd: -1, ended: make(chan struct{}), said: make(chan struct{})}
	attr := &syscall.ProcAttr{
		Env:   []string{"GOMAXPROCS=2", "GOTRACEBACK=single"},
		Files: []uintptr{null.Fd(), null.Fd(), errW.Fd(), socket.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true, PidFD: &k.pidfd},
	}
	if namespaces {
		// Without namespaces the keeper must survive the node to clean up.
		attr.Sys.Pdeathsig = syscall.SIGKILL
		attr.Sys.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC
		mapUsers(attr.Sys)
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		var err error
		k.pid, err = syscall.ForkExec(c.cfg.Self[0], c.cfg.Self, attr)
		if err == nil && k.pidfd < 0 {
			k.pidfd, err = unix.PidfdOpen(k.pid, 0)
		}
		started <- err
		if k.pid > 0 {
			k.wait()
		}
	}()
	err = <-started
	err = errors.Join(err, null.Close(), errW.Close())
	if err != nil {
		if k.pid > 0 {
			unix.Kill(k.pid, unix.SIGKILL)
			<-k.ended
		}
		return nil, errors.Join(fmt.Errorf("starting the keeper: %w", err), errR.Close())
	}
	go k.listen(errR, c.log)
	return k, nil
}

func (k *keeperProcess) wait() {
	var status unix.WaitStatus
	_, err := unix.Wait4(k.pid, &status, 0, nil)
	for errors.Is(err, unix.EINTR) {
		_, err = unix.Wait4(k.pid, &status, 0, nil)
	}
	if err == nil {
		k.exit = ExitOf(syscall.WaitStatus(status))
	}
	close(k.ended)
}

// listen logs the keeper's standard error, which is empty unless something is wrong.
func (k *keeperProcess) listen(r *os.File, log *slog.Logger) {
	defer close(k.said)
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, maxComplaint))
	if text := strings.TrimSpace(string(b)); text != "" || err != nil {
		log.Error("the keeper of a container wrote to its standard error", "pid", k.pid, "text", text, "error", err)
	}
	// Keep reading, so that a broken pipe does not end the keeper.
	_, _ = io.Copy(io.Discard, r)
}

func socketPair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("making the keeper's socket: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "keeper"), os.NewFile(uintptr(fds[1]), "container"), nil
}
