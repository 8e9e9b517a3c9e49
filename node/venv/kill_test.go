package venv

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// buildInChild builds one environment, and stops at the step that it was told to
// stop at until it is killed.
func buildInChild() {
	uv, python := os.Getenv("CHILD_UV"), os.Getenv("CHILD_PYTHON")
	s, err := Open(Config{Dir: os.Getenv("CHILD_DIR"), Uv: uv, Log: slog.New(slog.DiscardHandler), Interpreter: func() (string, error) { return python, nil }})
	if err != nil {
		panic(err)
	}
	s.passed = func(step string) {
		fmt.Println("step", step)
		if step == os.Getenv(childVar) {
			fmt.Println("here")
			select {}
		}
	}
	env, err := s.Acquire(context.Background(), needs("a"), func(string) {})
	if err != nil {
		panic(err)
	}
	fmt.Println("built")
	if os.Getenv(childVar) == "built" {
		fmt.Println("here")
		time.Sleep(10 * patience) // in use until it is killed
	}
	env.Release()
}

// child is a builder in a process of its own.
type child struct {
	cmd *exec.Cmd
	out *bufio.Scanner
}

func startChild(t *testing.T, dir string, uv *fakeUv, stopAt string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVar+"="+stopAt, "CHILD_DIR="+dir, "CHILD_UV="+uv.path, "CHILD_PYTHON="+python(t))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &child{cmd, bufio.NewScanner(out)}
}

// says waits until the child has printed a line; false when it ended before.
func (c *child) says(line string) bool {
	for c.out.Scan() {
		if c.out.Text() == line {
			return true
		}
	}
	return false
}

func (c *child) kill(t *testing.T) {
	t.Helper()
	if err := c.cmd.Process.Kill(); err != nil && err != os.ErrProcessDone {
		t.Fatal(err)
	}
	_ = c.cmd.Wait() // it was killed
}

// wholeAfterKill looks at what a killed builder has left: an environment that is
// ready is whole, and what is not is gone when the store is opened again.
func wholeAfterKill(t *testing.T, dir string, uv *fakeUv) (built bool) {
	t.Helper()
	s := open(t, Config{Dir: dir, Uv: uv.path})
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	locks, err := os.ReadDir(filepath.Join(dir, "locks"))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range locks {
		if strings.HasSuffix(l.Name(), ".build") {
			t.Errorf("left over: %s", l.Name())
		}
	}
	built = s.Built(needs("a"))
	env := ready(t, s, needs("a"))
	if b, err := os.ReadFile(filepath.Join(env.Dir, "lib", "thing.py")); string(b) != "x = 1\n" {
		t.Errorf("it is not whole: %q, %v", b, err)
	}
	return built
}

func TestKilledAtEachStep(t *testing.T) {
	for _, step := range []struct {
		name  string
		built bool
	}{
		{"resolved", false}, {"installed", false}, {"flushed", false}, {"renamed", false},
		{"marked", false}, // whole, but nobody knows which wish it answers
		{"pinned", true}, {"built", true},
	} {
		t.Run(step.name, func(t *testing.T) {
			t.Parallel()
			dir, uv := t.TempDir(), newFakeUv(t)
			c := startChild(t, dir, uv, step.name)
			if !c.says("here") {
				t.Fatal("the child ended before")
			}
			if other := open(t, Config{Dir: dir, Uv: uv.path}); step.built != other.Built(needs("a")) {
				t.Errorf("while it builds, it counts as built: %v", !step.built)
			}
			c.kill(t)
			if built := wholeAfterKill(t, dir, uv); built != step.built {
				t.Errorf("afterwards it counts as built: %v", built)
			}
		})
	}
}

func TestKilledAtAnyTime(t *testing.T) {
	dir, uv := t.TempDir(), newFakeUv(t)
	// The first build shows how long one takes.
	began := time.Now()
	c := startChild(t, t.TempDir(), uv, "none")
	if !c.says("built") {
		t.Fatal("the child failed")
	}
	c.kill(t)
	takes := time.Since(began)
	for range 8 {
		c := startChild(t, dir, uv, "none")
		moment := time.AfterFunc(rand.N(takes), func() { _ = c.cmd.Process.Kill() })
		c.says("built")
		moment.Stop()
		c.kill(t)
		wholeAfterKill(t, dir, uv)
		dir = t.TempDir()
	}
}

// The builder's own processes die with the node, and write nowhere any more.
func TestTheBuilderDiesWithTheNode(t *testing.T) {
	dir, uv := t.TempDir(), newFakeUv(t)
	uv.write("sync.sh", `echo $$ > "$D/pid.new"; mv "$D/pid.new" "$D/pid"; while :; do sleep 0.05; done`)
	c := startChild(t, dir, uv, "none")
	eventually(t, "uv runs", func() bool { return isFile(filepath.Join(uv.dir, "pid")) })
	pid := readPid(t, uv)
	c.kill(t)
	eventually(t, "uv is dead", func() bool { return !running(pid) })
}

// Two processes that want the same at once build it once.
func TestProcessesShareABuild(t *testing.T) {
	dir, uv := t.TempDir(), newFakeUv(t)
	uv.waitAt("sync")
	c := startChild(t, dir, uv, "none")
	eventually(t, "the child builds", func() bool { return uv.ran("sync") == 1 })
	s := open(t, Config{Dir: dir, Uv: uv.path})
	other := call(context.Background(), s, needs("a"))
	other.hears(t, "another process builds this environment; waiting for it")
	uv.allow()
	other.gets(t)
	if !c.says("built") {
		t.Error("the child failed")
	}
	c.kill(t)
	if n := uv.ran("sync"); n != 1 {
		t.Errorf("it was built %d times", n)
	}
}

func isFile(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
