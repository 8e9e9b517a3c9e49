package oneshot

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// selfPath names the running executable, even if its file was replaced.
func selfPath() (string, error) { return "/proc/self/exe", nil }

// rssUnit is the unit of Rusage.Maxrss, in bytes.
const rssUnit = 1024

// adoptOrphans makes this process the subreaper of its descendants, so that daemons remain
// its descendants. It reports whether that worked.
func adoptOrphans() bool { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil }

func programAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// extraTasks is how many processes and threads a program may add to those of its user.
const extraTasks = 2048

// processLimit returns a limit against fork bombs, for users to whom the kernel applies it.
func processLimit() (limit unix.Rlimit, ok bool) {
	if os.Geteuid() == 0 || unix.Getrlimit(unix.RLIMIT_NPROC, &limit) != nil {
		return limit, false
	}
	want := uint64(tasksOf(uint32(os.Getuid())) + extraTasks)
	if want >= limit.Cur {
		return limit, false
	}
	limit.Cur = want
	return limit, true
}

// tasksOf returns the number of threads of a user.
func tasksOf(uid uint32) int {
	count := 0
	for _, pid := range processes() {
		var st unix.Stat_t
		if unix.Stat("/proc/"+strconv.Itoa(pid), &st) != nil || st.Uid != uid {
			continue
		}
		if f := stat(pid); len(f) > 17 {
			n, _ := strconv.Atoi(string(f[17])) // the kernel writes numbers
			count += n
		}
	}
	return count
}

// descendants returns all descendants of this process. Orphans of the program are included,
// because this process is their subreaper.
func descendants(int) []int {
	children := make(map[int][]int)
	for _, pid := range processes() {
		if f := stat(pid); len(f) > 1 {
			parent, _ := strconv.Atoi(string(f[1])) // the kernel writes numbers
			children[parent] = append(children[parent], pid)
		}
	}
	found := children[os.Getpid()]
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}
	return found
}

// processes lists all process ids.
func processes() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // use what was read before an error
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// stat returns the fields of /proc/PID/stat from the state on; nil if the process does not
// exist.
func stat(pid int) [][]byte {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return nil
	}
	// The name in front of them may contain spaces and brackets.
	return bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
}

// killMarked kills all processes with the mark in their environment. It is the last resort
// when a supervisor was killed.
func killMarked(mark string) {
	for _, pid := range processes() {
		env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
		if err == nil && bytes.Contains(env, []byte(mark)) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}
