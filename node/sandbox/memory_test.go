package sandbox

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReadMemory(t *testing.T) {
	var r MemoryReader
	m, err := r.Read()
	if err != nil || m.Total < 64<<20 || m.Available <= 0 || m.Available > m.Total {
		t.Fatalf("%+v %v", m, err)
	}
	if len(r.groups) == 0 {
		t.Skip("this process has no control group")
	}
	// An idle node must not look for its groups at each check.
	found := r.found
	if _, err := r.Read(); err != nil || r.found != found {
		t.Errorf("a second reading looked for the control groups again: %v", err)
	}
	r.found = found.Add(-findGroupsEvery)
	if _, err := r.Read(); err != nil || r.found.Before(found) {
		t.Errorf("after %s the control groups were not looked for again: %v", findGroupsEvery, err)
	}
}

// A control group, or one above it, may leave less than the machine has.
func TestMemoryWithinControlGroups(t *testing.T) {
	root := t.TempDir()
	write := func(dir string, files map[string]string) {
		t.Helper()
		at := filepath.Join(root, dir)
		if err := os.MkdirAll(at, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	write("v2/pod", map[string]string{"memory.max": "1000\n", "memory.current": "900\n", "memory.stat": "anon 500\nactive_file 150\ninactive_file 50\n"})
	write("v2/pod/node", map[string]string{"memory.max": "max\n", "memory.current": "10\n", "memory.stat": ""})
	write("v2/pod/small", map[string]string{"memory.max": "400\n", "memory.current": "10\n", "memory.stat": ""})
	write("v1/job", map[string]string{
		"memory.limit_in_bytes": "2000\n", "memory.usage_in_bytes": "1950\n", "memory.stat": "active_file 1\ntotal_active_file 100\ntotal_inactive_file 50\n",
	})
	write("v1/full", map[string]string{"memory.limit_in_bytes": "2000\n", "memory.usage_in_bytes": "2100\n", "memory.stat": ""})
	machine := Memory{Total: 10_000, Available: 5_000}
	for name, c := range map[string]struct {
		version, mount, path string
		want                 Memory
	}{
		"a limit above":     {"", "v2", "/pod/node", Memory{1000, 300}},
		"two limits":        {"", "v2", "/pod/small", Memory{400, 300}},
		"no limit":          {"", "v2", "/", machine},
		"one that is gone":  {"", "v2", "/gone", machine},
		"the older version": {"memory", "v1", "/job", Memory{2000, 200}},
		"over the limit":    {"memory", "v1", "/full", Memory{2000, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			got := machine.within(cgroupPlace{mount: filepath.Join(root, c.mount), path: c.path}, memoryFiles[c.version])
			if got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
	little := Memory{Total: 10_000, Available: 100}
	if got := little.within(cgroupPlace{mount: filepath.Join(root, "v2"), path: "/pod"}, memoryFiles[""]); got.Available != 100 {
		t.Errorf("a group that has room on a machine that has little: %+v", got)
	}
}
