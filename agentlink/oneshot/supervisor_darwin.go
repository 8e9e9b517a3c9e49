package oneshot

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func selfPath() (string, error) { return os.Executable() }

// rssUnit is the unit of Rusage.Maxrss, in bytes.
const rssUnit = 1

// adoptOrphans does nothing: macOS has no subreapers. A daemon that leaves its session is
// not found.
func adoptOrphans() bool { return false }

func processLimit() (limit unix.Rlimit, ok bool) { return limit, false }

func programAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// descendants returns the descendants of this process, and all processes in the program's
// group or session.
func descendants(program int) []int {
	all, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil
	}
	ours := map[int]bool{os.Getpid(): true}
	var found []int
	for grew := true; grew; {
		grew = false
		for _, p := range all {
			pid := int(p.Proc.P_pid)
			if pid <= 1 || ours[pid] {
				continue
			}
			session, err := unix.Getsid(pid)
			if ours[int(p.Eproc.Ppid)] || int(p.Eproc.Pgid) == program || err == nil && session == program {
				ours[pid], grew = true, true
				found = append(found, pid)
			}
		}
	}
	return found
}

// killMarked does nothing: macOS does not show other processes' environments.
func killMarked(string) {}
