package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// hiddenOptions are the mount options of the file system that covers a hidden path. It
// contains only the directories that lead to visible paths below it.
const hiddenOptions = "mode=0755,size=256k,nr_inodes=256"

// makeInside makes the container's mounts and records in r what succeeded. It runs in the
// keeper before any process of the container exists.
func makeInside(o *setupOrder, r *readyReport) {
	try := func(done *bool, doing string, f func() error) bool {
		if err := f(); err != nil {
			r.Problems = append(r.Problems, fmt.Sprintf("%s: %v", doing, err))
			return false
		}
		*done = true
		return true
	}
	if !try(&r.Mounts, "making the mounts private", func() error {
		return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	}) {
		return
	}
	try(&r.Hidden, "hiding the node's files", func() error { return hide(o.Hide, o.Workspace, o.Show) })
	// Shared memory is private to the processes of one agent and ends with the container.
	try(&r.Shm, "mounting /dev/shm", func() error {
		err := unix.Mount("locus-shm", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777")
		if errors.Is(err, os.ErrNotExist) {
			return nil // this machine has no /dev/shm
		}
		return err
	})
	// With write access to the control groups, code could move itself out of its own.
	try(&r.SysSafe, "making /sys read-only", protectSys)
	try(&r.Proc, "mounting /proc", func() error {
		return unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	})
	try(&r.Views, "trying an overlay", tryView)
	if o.Processes > 0 {
		try(&r.NProc, "limiting processes", func() error {
			most := uint64(o.Processes) + keeperThreads
			return unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: most, Max: most})
		})
	}
}

// keeperThreads is added to a limit of processes for the threads of the keeper itself,
// which count too.
const keeperThreads = 12

// hide covers each path that exists, except the workspace and shown directories below it. A
// path inside the workspace is covered like any other.
func hide(paths []string, workspace string, shown []string) error {
	workspace, err := filepath.EvalSymlinks(workspace)
	if err != nil {
		return err
	}
	if shown, err = realPaths(shown); err != nil {
		return err
	}
	real, err := realPaths(paths)
	if err != nil {
		return err
	}
	var covered []string
	for _, p := range real {
		if slices.ContainsFunc(covered, func(c string) bool { return within(p, c) && !(within(p, workspace) && within(workspace, c)) }) {
			continue // a covered directory above it hides it already
		}
		var keep []kept
		if within(workspace, p) {
			keep = append(keep, kept{path: workspace})
		}
		for _, s := range shown {
			if s != p && within(s, p) {
				keep = append(keep, kept{path: s, readOnly: true})
			}
		}
		if err := cover(p, keep); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		covered = append(covered, p)
	}
	return nil
}

// kept is a directory that stays visible below a covered path.
type kept struct {
	path     string
	readOnly bool
}

// realPaths resolves the paths that exist, outermost first.
func realPaths(paths []string) ([]string, error) {
	var real []string
	for _, p := range paths {
		r, err := filepath.EvalSymlinks(p)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		real = append(real, r)
	}
	slices.Sort(real)
	return slices.Compact(real), nil
}

// within reports whether path is dir or below it; both are clean and absolute.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// cover mounts an empty read-only file system over path, or the null device if path is a
// file, and bind-mounts the kept directories into it.
func cover(path string, keep []kept) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return unix.Mount(os.DevNull, path, "", unix.MS_BIND, "")
	}
	fds := make([]int, len(keep))
	for i, k := range keep {
		if fds[i], err = unix.Open(k.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
			return err
		}
		defer unix.Close(fds[i])
	}
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV)
	if err := unix.Mount("locus-hidden", path, "tmpfs", flags, hiddenOptions); err != nil {
		return err
	}
	for i, k := range keep {
		if err := k.bind(fds[i]); err != nil {
			return fmt.Errorf("binding %s: %w", k.path, err)
		}
	}
	return unix.Mount("", path, "", flags|unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
}

// bind mounts the directory of a descriptor at its path again.
func (k kept) bind(fd int) error {
	if err := os.MkdirAll(k.path, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("/proc/self/fd/"+strconv.Itoa(fd), k.path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	if !k.readOnly {
		return nil
	}
	attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	return unix.MountSetattr(unix.AT_FDCWD, k.path, unix.AT_RECURSIVE, attr)
}

func protectSys() error {
	attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/sys", unix.AT_RECURSIVE, attr); err != nil {
		return err
	}
	// In a new control group namespace, code could mount the control groups writable. This
	// limit is for this user namespace; nested ones cannot raise it.
	return os.WriteFile("/proc/sys/user/max_cgroup_namespaces", []byte("0"), 0)
}

// viewTrialArgument, as the only argument, makes a program that calls RunKeeperIfAsked try
// an overlay; see tryView.
const viewTrialArgument = "--locus-sandbox-view-trial"

// tryView tests whether a copy can have a private view of the disk. An ordinary user's copy
// makes a user namespace for it, in which it has all capabilities. A process of many threads
// cannot enter one, so a new process tries that.
func tryView() error {
	if os.Geteuid() == 0 {
		return tryOverlay()
	}
	trial := exec.Command("/proc/self/exe", viewTrialArgument)
	trial.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS}
	mapUsers(trial.SysProcAttr)
	trial.Env = []string{"GORACE=atexit_sleep_ms=0"} // a program with the race detector sleeps at its end
	trial.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_DAC_OVERRIDE}
	out, err := trial.Output()
	if why := strings.TrimSpace(string(out)); err != nil && why != "" {
		return errors.New(why)
	}
	return err
}

// tryOverlay mounts and unmounts an overlay.
func tryOverlay() error {
	const place = "/tmp"
	if err := unix.Mount("locus-try", place, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700,size=64k"); err != nil {
		return err
	}
	defer unix.Unmount(place, unix.MNT_DETACH)
	for _, d := range []string{"lower", "upper", "work", "view"} {
		if err := os.Mkdir(filepath.Join(place, d), 0o700); err != nil {
			return err
		}
	}
	options := fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work,userxattr", place)
	if err := unix.Mount("locus-try", filepath.Join(place, "view"), "overlay", 0, options); err != nil {
		return err
	}
	return unix.Unmount(filepath.Join(place, "view"), 0)
}
