package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// spawn starts a command and answers. An error is the link's.
func (k *keeper) spawn(id uint64, o *spawnOrder, fds []int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	// A tracer is a thread, not a process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, pidfd, report := k.start(o, fds)
	if report.Errno != 0 {
		return k.link.write(message{Kind: messageStarted, ID: id, Start: &report})
	}
	defer unix.Close(pidfd)
	k.children[pid] = id
	if o.Held {
		// When it is not held any more it has been killed, which reap will see.
		defer unix.PtraceDetach(pid)
	}
	if err := k.link.write(message{Kind: messageStarted, ID: id, Start: &report}, pidfd); err != nil {
		return err
	}
	m, extra, err := k.link.read()
	closeAll(extra)
	if err != nil {
		return nil // serve meets the same end
	}
	if m.Kind != messageAck || m.ID != id {
		return fmt.Errorf("%q in place of the acknowledgement of %d", m.Kind, id)
	}
	return nil
}

// awaitHold waits until a process that is born traced stops at its exec. If it is
// killed before, it is left for reap.
func awaitHold(pid int) error {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// start is the one place where a command's process is made: what shall hold for
// every command of a container is put on here, between the namespaces and exec.
func (k *keeper) start(o *spawnOrder, fds []int) (pid, pidfd int, r startReport) {
	want := o.Files
	if o.InGroup {
		want++
	}
	if len(fds) != want {
		return 0, -1, startReport{Errno: unix.EBADMSG}
	}
	files := make([]uintptr, max(o.Files, 3))
	for i := range files {
		if i < o.Files {
			files[i] = uintptr(fds[i])
		} else {
			files[i] = k.devNull.Fd()
		}
	}
	if dir := string(o.Dir); dir != "" {
		if err := enterable(dir); err != nil {
			return 0, -1, startReport{Errno: errnoOf(err), Dir: true}
		}
	}
	pidfd = -1
	attr := &syscall.ProcAttr{Dir: string(o.Dir), Env: texts(o.Env), Files: files}
	attr.Sys = &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd, Ptrace: o.Held}
	if k.namespaces {
		// A user namespace of its own, below the keeper's, is what locks the mounts:
		// nothing in it can be taken off to see what lies under, and no capability
		// inside reaches the keeper.
		attr.Sys.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS
		mapUsers(attr.Sys)
	}
	if o.InGroup {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, fds[o.Files]
	}
	if o.Tag != 0 {
		// The child inherits the keeper's own mark.
		if err := setTag(0, tag{container: k.tag, group: o.Tag}); err != nil {
			return 0, -1, startReport{Errno: errnoOf(err)}
		}
		defer setTag(0, tag{container: k.tag, group: k.tag})
	}
	pid, err := syscall.ForkExec(string(o.Path), texts(o.Args), attr)
	if err != nil && o.InGroup && (errors.Is(err, unix.EACCES) || errors.Is(err, unix.EBUSY) ||
		errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM)) {
		// Some of these are also what exec itself gives; then it gives them again.
		attr.Sys.UseCgroupFD = false
		pid, err = syscall.ForkExec(string(o.Path), texts(o.Args), attr)
	}
	if err != nil {
		return 0, -1, startReport{Errno: errnoOf(err)}
	}
	if pidfd < 0 {
		if pidfd, err = unix.PidfdOpen(pid, 0); err != nil {
			unix.Kill(pid, unix.SIGKILL)
			return 0, -1, startReport{Errno: errnoOf(err)}
		}
	}
	if o.Held {
		if err := awaitHold(pid); err != nil {
			unix.Kill(pid, unix.SIGKILL)
			unix.Close(pidfd)
			return 0, -1, startReport{Errno: errnoOf(err)}
		}
	}
	return pid, pidfd, startReport{InGroup: attr.Sys.UseCgroupFD}
}

// enterable says why a directory cannot be a command's working directory.
func enterable(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return unix.ENOTDIR
	}
	return unix.Access(dir, unix.X_OK)
}

// reap waits for every child, the orphans of the container too, and reports the
// ends of those that were spawned. It lives as long as the keeper.
func (k *keeper) reap() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	for {
		k.reapAll()
		<-ended
	}
}

func (k *keeper) reapAll() {
	for {
		k.mu.Lock()
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		id, known := k.children[pid]
		delete(k.children, pid)
		k.mu.Unlock()
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if known {
			// When this fails the container is gone, and serve ends the keeper.
			_ = k.link.write(message{Kind: messageExit, ID: id, Exit: status})
		}
	}
}

func errnoOf(err error) unix.Errno {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return unix.EIO
}

func texts(bs [][]byte) []string {
	s := make([]string, len(bs))
	for i, b := range bs {
		s[i] = string(b)
	}
	return s
}
