package node_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// outsidePID returns the pid, outside its namespace, of the process with a pid in its own that
// works in a workspace.
func outsidePID(t testing.TB, inside, workspace string) int {
	t.Helper()
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if cwd, err := os.Readlink(dir + "/cwd"); err != nil || cwd != workspace {
			continue
		}
		names := strings.Fields(field(dir, "NSpid"))
		if len(names) > 0 && names[len(names)-1] == inside {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			return pid
		}
	}
	t.Fatalf("no process %s in %s", inside, workspace)
	return 0
}

func parentOf(t testing.TB, pid int) int {
	t.Helper()
	parent, err := strconv.Atoi(field(fmt.Sprintf("/proc/%d", pid), "PPid"))
	if err != nil {
		t.Fatal(err)
	}
	return parent
}

func field(dir, name string) string {
	b, err := os.ReadFile(dir + "/status")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if k, v, _ := strings.Cut(line, ":"); k == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// killOwn kills a process after checking that this test process started it.
func killOwn(t testing.TB, pid int) {
	t.Helper()
	for at := pid; at != os.Getpid(); at = parentOf(t, at) {
		if at <= 1 {
			t.Fatalf("process %d is not ours", pid)
		}
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// inWorkspace returns the processes that work in a directory.
func inWorkspace(workspace string) []int {
	var pids []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if cwd, err := os.Readlink(dir + "/cwd"); err == nil && cwd == workspace {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}
