package venv

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience bounds every wait of these tests. Nothing should come near it.
const patience = 60 * time.Second

// childVar makes this program a builder in a process of its own, which the tests
// of killed builds kill.
const childVar = "LOCUS_VENV_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVar) != "" {
		buildInChild()
		return
	}
	goleak.VerifyTestMain(m)
}

// python is the interpreter that stands for the node's own.
func python(t testing.TB) string {
	t.Helper()
	if p := os.Getenv("LOCUS_TEST_PYTHON"); p != "" {
		return p
	}
	for _, dir := range searchPath() {
		if p := filepath.Join(dir, "python3"); isProgram(p) {
			return p
		}
	}
	t.Skip("there is no python3 on the PATH")
	return ""
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}

func open(t testing.TB, cfg Config) *Store {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	if cfg.Interpreter == nil {
		p := python(t)
		cfg.Interpreter = func() (string, error) { return p, nil }
	}
	cfg.Log = slog.New(slog.DiscardHandler)
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// needs is the spec of an environment with some packages.
func needs(packages ...string) Spec {
	text := "[project]\ndependencies = ["
	for _, p := range packages {
		text += fmt.Sprintf("%q, ", p)
	}
	return specOf(text + "]\n")
}

func specOf(text string) Spec { return Spec{Digest: Digest(text), Text: text} }

func ready(t testing.TB, s *Store, spec Spec) *Env {
	t.Helper()
	var said []string
	env, err := s.Acquire(soon(t), spec, func(line string) { said = append(said, line) })
	if err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(said, "\n"))
	}
	t.Cleanup(env.Release)
	return env
}

// fakeUv is a program that says and does what uv would, as far as a build looks at
// it. What it does beside that is in files of its folder.
type fakeUv struct {
	t    testing.TB
	dir  string
	path string
}

const fakeScript = `#!/bin/sh
D='%[1]s'
case "$1" in
--version) echo "uv 99.0.0 (fake)"; exit ;;
esac
echo "$* UV_OFFLINE=$UV_OFFLINE" >> "$D/log"
if [ -f "$D/$1.sh" ]; then . "$D/$1.sh"; fi
case "$1" in
lock) echo "Resolved 1 package"; [ -f uv.lock ] || echo 'version = 1' > uv.lock ;;
venv)
	for last; do :; done
	mkdir -p "$last/bin" "$last/lib"
	ln -s '%[2]s' "$last/bin/python"
	;;
sync) echo "Installed 1 package"; echo 'x = 1' > "$UV_PROJECT_ENVIRONMENT/lib/thing.py" ;;
*) exit 9 ;;
esac
`

func newFakeUv(t testing.TB) *fakeUv {
	t.Helper()
	f := &fakeUv{t: t, dir: t.TempDir()}
	f.path = filepath.Join(f.dir, "uv")
	f.write("uv", fmt.Sprintf(fakeScript, f.dir, python(t)))
	if err := os.Chmod(f.path, 0o755); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fakeUv) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// waitAt makes a command say "at COMMAND" and wait until allow.
func (f *fakeUv) waitAt(command string) {
	f.write(command+".sh", "echo at "+command+"\nwhile [ ! -f \"$D/go\" ]; do sleep 0.02; done\n")
}

func (f *fakeUv) allow() { f.write("go", "") }

// ran counts how often a command was run.
func (f *fakeUv) ran(command string) int {
	f.t.Helper()
	b, err := os.ReadFile(filepath.Join(f.dir, "log"))
	if err != nil && !os.IsNotExist(err) {
		f.t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, command+" ") {
			n++
		}
	}
	return n
}

// eventually waits until something holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// leftovers are the names in the store that are no finished environment.
func leftovers(t testing.TB, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "envs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(dir, "envs", e.Name(), markerName)); err != nil {
			names = append(names, e.Name())
		}
	}
	return names
}

// run runs code in an environment and gives what it prints.
func run(t testing.TB, env *Env, code string) string {
	t.Helper()
	out, err := exec.Command(env.Interpreter, "-B", "-c", code).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}
