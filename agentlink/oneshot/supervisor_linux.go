package oneshot

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// selfPath is this very executable, also when its file was replaced by a newer one.
func selfPath() (string, error) { return "/proc/self/exe", nil }

// rssUnit is what the kernel counts resident memory in.
const rssUnit = 1024

// adoptOrphans makes this process the parent of all that its descendants leave behind,
// so that a daemon stays where it can be found. It says whether it could.
func adoptOrphans() bool { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil }

func programAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// spareTasks is how many processes and threads a program may have beside those that
// its user has already.
const spareTasks = 2048

// processLimit bounds a bomb of forks, for users whom the kernel holds to that.
func processLimit() (limit unix.Rlimit, ok bool) {
	if os.Geteuid() == 0 || unix.Getrlimit(unix.RLIMIT_NPROC, &limit) != nil {
		return limit, false
	}
	want := uint64(tasksOf(uint32(os.Getuid())) + spareTasks)
	if want >= limit.Cur {
		return limit, false
	}
	limit.Cur = want
	return limit, true
}

// tasksOf counts the threads of a user.
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

// offspring gives all descendants of this process. That of a program needs no more: what
// its processes leave behind is this one's.
func offspring(int) []int {
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

// processes lists all processes that there are.
func processes() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // what was read before an error counts
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// stat gives the fields of a process's stat from its state on, nil when it is gone.
func stat(pid int) [][]byte {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return nil
	}
	// The name before it may hold spaces and brackets.
	return bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
}

// killMarked kills processes whose environment holds the mark: the last resort for what
// a supervisor that was killed itself has left.
func killMarked(mark string) {
	for _, pid := range processes() {
		env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
		if err == nil && bytes.Contains(env, []byte(mark)) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}
