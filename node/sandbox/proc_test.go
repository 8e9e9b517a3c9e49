package sandbox

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
)

const statOf = "1234 (%s) S 1 1200 1200 0 -1 4194560 100 0 0 0 1 2 4 5 20 0 1 0 987654 1000 50 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 1 1 1 1 1 1 1 256\n"

func TestParseStat(t *testing.T) {
	for _, name := range []string{"sh", "a b", "x) S 7 (y", ")", "((", "a\nb"} {
		got, err := parseStat([]byte(strings.Replace(statOf, "%s", name, 1)))
		want := Stat{Parent: 1, Group: 1200, Start: 987654 * tick, CPU: 3 * tick, ChildrenCPU: 9 * tick, state: 'S', exitCode: 256}
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", name, got, err)
		}
	}
	for _, bad := range []string{"", "1 (x", "1 (x) S 1", strings.Replace(statOf, "987654", "many", 1), strings.Replace(statOf, " 256", "", 1)} {
		if s, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q gives %+v", bad, s)
		}
	}
	s, err := ReadStat(os.Getpid())
	if err != nil || s.Parent != os.Getppid() || s.Group != syscall.Getpgrp() || s.Dead() {
		t.Errorf("of this process: %+v, %v", s, err)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte(statOf))
	f.Add([]byte("1 (x) Z"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := parseStat(b); err == nil && s.state == 0 {
			t.Errorf("%q has no state", b)
		}
	})
}

func TestParseCgroupPlaces(t *testing.T) {
	const unified = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	const hybrid = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
		"32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" +
		"41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	for name, tc := range map[string]struct {
		mounts, own string
		want        map[string]cgroupPlace
	}{
		"unified": {unified, "0::/user.slice/node.service\n", map[string]cgroupPlace{
			"": {"/sys/fs/cgroup", "/user.slice/node.service"}}},
		"hybrid": {hybrid, "4:memory:/a/b\n1:cpu,cpuacct:/\n0::/\n", map[string]cgroupPlace{
			"": {"/sys/fs/cgroup/unified", "/"}, "memory": {"/sys/fs/cgroup/memory", "/a/b"},
			"cpu": {"/sys/fs/cgroup/cpu,cpuacct", "/"}, "cpuacct": {"/sys/fs/cgroup/cpu,cpuacct", "/"}}},
		"a part is mounted": {"30 24 0:26 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup rw\n", "0::/docker/x/sub\n", map[string]cgroupPlace{
			"": {"/sys/fs/cgroup", "/sub"}}},
		"another part is mounted": {"30 24 0:26 /other /sys/fs/cgroup rw - cgroup2 cgroup rw\n", "0::/docker/x\n", map[string]cgroupPlace{
			"": {"/sys/fs/cgroup", "/"}}},
		"none":   {"22 27 0:21 / /proc rw - proc proc rw\n", "0::/\n", map[string]cgroupPlace{}},
		"broken": {"- cgroup2\n30 24\n", "nonsense\n0::/\n", map[string]cgroupPlace{}},
	} {
		if got := parseCgroupPlaces(tc.mounts, tc.own); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestUnifiedControllers chooses a place in a v2 tree made of plain files, which
// this machine need not have.
func TestUnifiedControllers(t *testing.T) {
	tree := func(own, ownOn string) cgroupPlace {
		root := t.TempDir()
		dir := filepath.Join(root, "svc")
		for d, files := range map[string]map[string]string{
			root: {"cgroup.controllers": "cpu memory pids", "cgroup.subtree_control": "memory pids"},
			dir:  {"cgroup.controllers": own, "cgroup.subtree_control": ownOn},
		} {
			if err := os.MkdirAll(d, 0o755); err != nil {
				t.Fatal(err)
			}
			for name, text := range files {
				if err := os.WriteFile(filepath.Join(d, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		return cgroupPlace{mount: root, path: "/svc"}
	}
	// In plain directories no group can be tried out, so the place must be passed.
	var b cgroupBase
	b.openUnified(tree("memory pids", "memory pids"))
	if b.unified != "" || len(b.problems) == 0 {
		t.Errorf("a plain directory was taken: %+v", b)
	}
	if got := controllersIn(tree("memory pids io", "").own(), "cgroup.controllers"); !got["memory"] || !got["io"] || got["cpu"] {
		t.Errorf("controllers are %v", got)
	}
}

func TestWithin(t *testing.T) {
	for _, tc := range []struct {
		path, dir string
		want      bool
	}{{"/a/b", "/a", true}, {"/a", "/a", true}, {"/ab", "/a", false}, {"/a", "/a/b", false}, {"/x", "/", true}} {
		if within(tc.path, tc.dir) != tc.want {
			t.Errorf("%+v", tc)
		}
	}
}

func TestSignalName(t *testing.T) {
	for s, want := range map[syscall.Signal]string{syscall.SIGSEGV: "SIGSEGV", syscall.SIGKILL: "SIGKILL", 40: "SIG40", 0: "SIG0"} {
		if got := SignalName(s); got != want {
			t.Errorf("%d is %q", s, got)
		}
	}
}

func TestExitString(t *testing.T) {
	for e, want := range map[Exit]string{
		{Known: true, Code: 3}:                            "exited with status 3",
		{Known: true, Signal: syscall.SIGSEGV}:            "was killed by SIGSEGV",
		{Known: true, Signal: syscall.SIGKILL, OOM: true}: "was killed for using more memory than its limit",
		{}: "ended, and how is not known",
	} {
		if e.String() != want {
			t.Errorf("%+v is %q", e, e.String())
		}
	}
}
