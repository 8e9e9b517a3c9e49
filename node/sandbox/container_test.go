package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"
)

// patience is how long a test waits for what must happen; machines under load are
// slow.
const patience = 30 * time.Second

// mode is a way in which a container may have to do.
type mode struct {
	name                    string
	noNamespaces, noCgroups bool
}

var modes = []mode{
	{name: "full"},
	{name: "no cgroups", noCgroups: true},
	{name: "no namespaces", noNamespaces: true},
	{name: "neither", noNamespaces: true, noCgroups: true},
}

func (m mode) set(c *Config) { c.NoNamespaces, c.NoCgroups = m.noNamespaces, m.noCgroups }

// inModes runs a test in every mode, or in short tests in the first and the last.
func inModes(t *testing.T, f func(t *testing.T, m mode)) {
	for i, m := range modes {
		if testing.Short() && i > 0 && i < len(modes)-1 {
			continue
		}
		t.Run(m.name, func(t *testing.T) { f(t, m) })
	}
}

// testLog sends a container's log to the test's output.
func testLog(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// open opens a container with a workspace below a hidden directory.
func open(t testing.TB, change ...func(*Config)) *Container {
	t.Helper()
	data := t.TempDir()
	workspace := data + "/workspace"
	if err := os.Mkdir(workspace, 0o755); err != nil {
		t.Fatal(err)
	}
	cfg := Config{Name: t.Name(), Workspace: workspace, Hide: []string{data}, Log: testLog(t)}
	for _, f := range change {
		f(&cfg)
	}
	c, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

func newGroup(t testing.TB, c *Container, l Limits) Group {
	t.Helper()
	g, err := c.NewGroup("test", l)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// shell starts a script of sh and gives what it writes to standard output.
func shell(t testing.TB, c *Container, g Group, script string) (*Process, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	p, err := c.Spawn(t.Context(), Command{
		Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: Environment(c.cfg.Workspace),
		Files: []*os.File{nil, w, w}, Group: g,
	})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return p, r
}

// run runs a script to its end.
func run(t testing.TB, c *Container, script string) (string, Exit) {
	t.Helper()
	p, r := shell(t, c, nil, script)
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, p.Done(), "the end of the script")
	return string(b), p.Exit()
}

func waitFor(t testing.TB, ch <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(patience):
		t.Fatalf("no sign of %s", what)
	}
}

// eventually asks again and again until the answer is yes.
func eventually(t testing.TB, what string, ask func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ask(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// withMark lists the living processes of the machine that have the mark as a
// whole argument. It does not use what is tested to find them.
func withMark(t testing.TB, mark string) []int {
	t.Helper()
	pids, err := allPids()
	if err != nil {
		t.Fatal(err)
	}
	var found []int
	for _, pid := range pids {
		b, err := os.ReadFile("/proc/" + itoa(pid) + "/cmdline")
		if err != nil || !bytes.Contains(b, []byte("\x00"+mark+"\x00")) {
			continue
		}
		if s, err := ReadStat(pid); err == nil && !s.Dead() {
			found = append(found, pid)
		}
	}
	return found
}

func TestCommandSeesItsOwnWorld(t *testing.T) {
	c := open(t)
	if !c.Enforced().PIDNamespace {
		t.Skip("no namespaces here")
	}
	out, exit := run(t, c, `echo $PPID; pwd; echo $HOME; ls ..; ls /proc/1/fd 2>&1 | head -1; tty`)
	if want := (Exit{Known: true, Code: 1}); exit != want { // tty's own: there is none
		t.Errorf("exit is %+v", exit)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	want := []string{"1", c.cfg.Workspace, c.cfg.Workspace, "workspace"}
	for i, w := range want {
		if i >= len(lines) || lines[i] != w {
			t.Fatalf("line %d is not %q in:\n%s", i, w, out)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	dir := t.TempDir()
	for name, cfg := range map[string]Config{
		"relative workspace":  {Workspace: "work"},
		"relative hidden":     {Workspace: dir, Hide: []string{"data"}},
		"workspace is hidden": {Workspace: dir, Hide: []string{dir}},
		"all is hidden":       {Workspace: dir, Hide: []string{"/"}},
		"negative limit":      {Workspace: dir, Limits: Limits{Memory: -1}},
	} {
		if c, err := Open(t.Context(), cfg); err == nil {
			t.Errorf("%s: no error", name)
			c.Close()
		}
	}
}

// What stirs the machine moves nothing, and harms nothing that is closed or dead.
func TestStirHasNoSideEffects(t *testing.T) {
	inModes(t, func(t *testing.T, m mode) {
		c := open(t, m.set)
		where := func() string {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", c.keeper.pid))
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		before := where()
		for range 3 {
			if err := c.WarmUp(); err != nil {
				t.Fatal(err)
			}
		}
		if after := where(); after != before {
			t.Errorf("the keeper is in\n%s\nand was in\n%s", after, before)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if err := c.WarmUp(); !errors.Is(err, errClosed) {
			t.Errorf("got %v of a closed container", err)
		}
	})
}
