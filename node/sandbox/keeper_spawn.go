package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// spawn starts a command, answers, and waits for the acknowledgement. An error means that
// the link has failed.
func (k *keeper) spawn(id uint64, o *spawnOrder, fds []int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	// ptrace ties the tracee to this thread, not to the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, pidfd, report := k.start(o, fds)
	if report.Errno != 0 {
		return k.link.write(message{Kind: messageStarted, ID: id, Start: &report})
	}
	defer unix.Close(pidfd)
	k.children[pid] = id
	if o.Held {
		// Detaching fails only if the process was killed, which reap will notice.
		defer unix.PtraceDetach(pid)
	}
	if err := k.link.write(message{Kind: messageStarted, ID: id, Start: &report}, pidfd); err != nil {
		return err
	}
	m, extra, err := k.link.read()
	closeAll(extra)
	if err != nil {
		return nil // the next read in serve fails too
	}
	if m.Kind != messageAck || m.ID != id {
		return fmt.Errorf("%q in place of the acknowledgement of %d", m.Kind, id)
	}
	return nil
}

// awaitHold waits until a process that was created traced stops at its exec. If it is killed
// before, reap handles that.
func awaitHold(pid int) error {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// start creates a command's process. It is the only place that does, so it applies
// everything that must hold for each command of a container.
func (k *keeper) start(o *spawnOrder, fds []int) (pid, pidfd int, r startReport) {
	want := o.Files
	if o.InGroup {
		want++
	}
	if len(fds) != want {
		return 0, -1, startReport{Errno: unix.EBADMSG}
	}
	if dir := string(o.Dir); dir != "" {
		if err := enterable(dir); err != nil {
			return 0, -1, startReport{Errno: errnoOf(err), Dir: true}
		}
	}
	pidfd = -1
	attr := k.attributes(o, fds)
	attr.Sys.PidFD = &pidfd
	if o.Tag != 0 {
		// The child inherits the keeper's own tag, so set that for the moment of the fork.
		if err := setTag(0, tag{container: k.tag, group: o.Tag}); err != nil {
			return 0, -1, startReport{Errno: errnoOf(err)}
		}
		defer setTag(0, tag{container: k.tag, group: k.tag})
	}
	pid, err := syscall.ForkExec(string(o.Path), texts(o.Args), attr)
	if err != nil && o.InGroup && mayBeUnsupported(err) {
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

// attributes returns how a command's process is created. fds are the descriptors that the
// command gets, and then that of its control group if it has one.
func (k *keeper) attributes(o *spawnOrder, fds []int) *syscall.ProcAttr {
	files := make([]uintptr, max(o.Files, 3))
	for i := range files {
		if i < o.Files {
			files[i] = uintptr(fds[i])
		} else {
			files[i] = k.devNull.Fd()
		}
	}
	attr := &syscall.ProcAttr{Dir: string(o.Dir), Env: texts(o.Env), Files: files}
	attr.Sys = &syscall.SysProcAttr{Setsid: true, Ptrace: o.Held}
	if k.namespaces {
		// A user namespace below the keeper's locks the mounts: code cannot unmount one to
		// see what is under it. Its capabilities have no effect on the keeper.
		attr.Sys.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS
		mapUsers(attr.Sys)
	}
	if o.InGroup {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, fds[o.Files]
	}
	return attr
}

// mayBeUnsupported reports whether a failed ForkExec may mean that a process cannot be
// created in a control group here. Some of these errors can also come from exec; a second
// attempt without the control group fails with them too.
func mayBeUnsupported(err error) bool {
	for _, errno := range []unix.Errno{unix.EACCES, unix.EBUSY, unix.ENOSYS, unix.EOPNOTSUPP, unix.EINVAL, unix.EPERM} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// enterable returns why a directory cannot be a command's working directory, or nil.
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

// reap reaps every child, including the container's orphans, and reports the exits of those
// that were spawned. It runs as long as the keeper.
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
		var used unix.Rusage
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, &used)
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
			// If this fails, the container is gone, and serve ends the keeper.
			cpu := time.Duration(used.Utime.Nano() + used.Stime.Nano())
			_ = k.link.write(message{Kind: messageExit, ID: id, Exit: status, CPU: cpu})
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
