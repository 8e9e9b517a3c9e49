package sandbox

import (
	"io"
	"log/slog"
	"os"
	"testing"
	"time"
)

// patience is how long a test waits for what must happen; machines under load are
// slow.
const patience = 20 * time.Second

// testLog sends a container's log to the test's output.
func testLog(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
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

func TestSpawnRuns(t *testing.T) {
	c := open(t)
	out, exit := run(t, c, `echo "$$ $PPID"; id -u; pwd; ls -la ..; ls /proc | head -5; exit 3`)
	t.Log(out, exit)
	t.Logf("%+v", c.Enforced())
	if exit != (Exit{Known: true, Code: 3}) {
		t.Errorf("exit is %+v", exit)
	}
}
