package venv

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// caller is somebody who waits for an environment.
type caller struct {
	lines chan string
	done  chan error
	env   *Env
}

func call(ctx context.Context, s *Store, spec Spec) *caller {
	c := &caller{lines: make(chan string, 5000), done: make(chan error, 1)}
	go func() {
		var err error
		c.env, err = s.Acquire(ctx, spec, func(line string) { c.lines <- line })
		close(c.lines)
		c.done <- err
	}()
	return c
}

// hears waits until a caller is told something.
func (c *caller) hears(t *testing.T, what string) {
	t.Helper()
	for {
		select {
		case line, ok := <-c.lines:
			if !ok {
				t.Fatalf("the wait is over: %v", <-c.done)
			}
			if line == what {
				return
			}
		case <-time.After(patience):
			t.Fatalf("%q is not said", what)
		}
	}
}

func (c *caller) gets(t *testing.T) *Env {
	t.Helper()
	select {
	case err := <-c.done:
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.env.Release)
		return c.env
	case <-time.After(patience):
		t.Fatal("there is no answer")
		return nil
	}
}

func TestManyCallersShareOneBuild(t *testing.T) {
	uv := newFakeUv(t)
	uv.waitAt("sync")
	s := open(t, Config{Uv: uv.path})
	s.grace = 0
	ctx, leave := context.WithCancelCause(context.Background())
	first := call(ctx, s, needs("a"))
	first.hears(t, "at sync")
	others := make([]*caller, 8)
	for i := range others {
		others[i] = call(context.Background(), s, needs("a"))
		others[i].hears(t, "Resolved 1 package") // said before it came
		others[i].hears(t, "at sync")
	}
	gone := errors.New("gone")
	leave(gone)
	if err := <-first.done; err != gone {
		t.Fatal(err)
	}
	uv.allow()
	for _, c := range others {
		if env := c.gets(t); env.Key != others[0].env.Key {
			t.Error("another environment")
		}
		if !slices.Contains(slices.Collect(func(yield func(string) bool) {
			for l := range c.lines {
				yield(l)
			}
		}), "Installed 1 package") {
			t.Error("a caller was not told the end")
		}
	}
	if n := uv.ran("sync"); n != 1 {
		t.Errorf("it was built %d times", n)
	}
	env := others[0].env
	want := filepath.Join(env.Dir, "bin", "python")
	if env.Interpreter != want || strings.Count(env.Version, ".") != 2 || string(env.Lock) != "version = 1\n" {
		t.Errorf("%+v", env)
	}
	if left := leftovers(t, s.dir); len(left) > 0 {
		t.Error(left)
	}
}

func TestBuildWithoutWaitersIsStopped(t *testing.T) {
	uv := newFakeUv(t)
	// The process that is not uv's own child must go too.
	uv.write("sync.sh", `sleep 1000 & echo $! > "$D/pid"; echo at sync; wait`)
	s := open(t, Config{Uv: uv.path})
	s.grace = 0
	ctx, leave := context.WithCancel(context.Background())
	c := call(ctx, s, needs("a"))
	c.hears(t, "at sync")
	leave()
	if err := <-c.done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	pid := readPid(t, uv)
	eventually(t, "the builder's child is killed", func() bool { return !running(pid) })
	eventually(t, "nothing is left", func() bool { return len(leftovers(t, s.dir)) == 0 })
	// And it is no verdict: who comes next has it built.
	uv.write("sync.sh", "")
	ready(t, s, needs("a"))
}

func TestBuildSurvivesAShortAbsenceOfItsWaiter(t *testing.T) {
	uv := newFakeUv(t)
	uv.waitAt("sync")
	s := open(t, Config{Uv: uv.path})
	s.grace = patience
	ctx, leave := context.WithCancel(context.Background())
	c := call(ctx, s, needs("a"))
	c.hears(t, "at sync")
	leave()
	<-c.done
	again := call(context.Background(), s, needs("a"))
	again.hears(t, "at sync")
	uv.allow()
	again.gets(t)
	if n := uv.ran("sync"); n != 1 {
		t.Errorf("it was built %d times", n)
	}
}

func TestCloseStopsBuilds(t *testing.T) {
	uv := newFakeUv(t)
	uv.waitAt("sync")
	s := open(t, Config{Uv: uv.path})
	c := call(context.Background(), s, needs("a"))
	c.hears(t, "at sync")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-c.done; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := s.Acquire(context.Background(), needs("a"), nil); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestABuildThatTakesTooLong(t *testing.T) {
	uv := newFakeUv(t)
	uv.waitAt("lock")
	s := open(t, Config{Uv: uv.path, BuildLimit: 4 * time.Second})
	_, err := s.Acquire(soon(t), needs("a"), nil)
	bad := (*BuildError)(nil)
	if !errors.As(err, &bad) || bad.Reason != Timeout || !strings.Contains(bad.Output, "at lock") {
		t.Errorf("%v: %#v", err, bad)
	}
}

func TestAFailedBuild(t *testing.T) {
	uv := newFakeUv(t)
	uv.write("sync.sh", `echo "warming up"; printf 'error: no \377 such thing\n' >&2; exit 1`)
	s := open(t, Config{Uv: uv.path})
	_, err := s.Acquire(soon(t), needs("a"), nil)
	bad := (*BuildError)(nil)
	if !errors.As(err, &bad) || bad.Reason != Failed || bad.Message != "uv failed: no \ufffd such thing" || bad.Output != "warming up\nerror: no \ufffd such thing" {
		t.Errorf("%v: %#v", err, bad)
	}
	if left := leftovers(t, s.dir); len(left) > 0 {
		t.Error(left)
	}
	uv.write("sync.sh", "")
	ready(t, s, needs("a")) // a failure is not remembered
}

func TestBuildFromTheCacheWithoutTheIndex(t *testing.T) {
	uv := newFakeUv(t)
	uv.write("lock.sh", `[ -n "$UV_OFFLINE" ] || { echo "no route"; exit 2; }`)
	s := open(t, Config{Uv: uv.path})
	c := call(context.Background(), s, needs("a"))
	c.hears(t, "no route")
	c.hears(t, "built from the cache, after the index could not be used")
	c.gets(t)
}

func TestOutdatedLockIsResolvedAgain(t *testing.T) {
	for name, script := range map[string]string{
		"it is out of date":       `echo 'version = 2' > uv.lock`,
		"it is for other Pythons": ``,
	} {
		t.Run(name, func(t *testing.T) {
			uv := newFakeUv(t)
			uv.write("lock.sh", script)
			s := open(t, Config{Uv: uv.path})
			spec := needs("a")
			spec.Lock = []byte("# old\nrequires-python = \">=3.8\"\n")
			if script == "" {
				spec.Lock = []byte("# old\nrequires-python = \">=9\"\n")
			}
			var said []string
			env, err := s.Acquire(soon(t), spec, func(l string) { said = append(said, l) })
			if err != nil {
				t.Fatal(err)
			}
			defer env.Release()
			if !strings.Contains(strings.Join(said, "\n"), "resolv") || !strings.Contains(strings.Join(said, "\n"), "the recorded lock") {
				t.Errorf("it is not told: %q", said)
			}
			if strings.Contains(string(env.Lock), "old") {
				t.Errorf("built by %q", env.Lock)
			}
			if !s.Built(spec) {
				t.Error("it would be built anew")
			}
			resolved := spec
			resolved.Lock = env.Lock
			if other := ready(t, s, resolved); other.Key != env.Key || uv.ran("sync") != 1 {
				t.Error("the same content is built twice")
			}
		})
	}
}

// A build by a lock that fails, say since the index gives an error, must not end in
// versions that the other nodes do not have.
func TestLockIsKeptAfterAFailedBuild(t *testing.T) {
	uv := newFakeUv(t)
	uv.write("sync.sh", `if grep -q old uv.lock 2>/dev/null; then echo 'error: 503'; exit 2; fi`)
	s := open(t, Config{Uv: uv.path})
	spec := needs("a")
	spec.Lock = []byte("# old\nrequires-python = \">=3.8\"\n")
	env, err := s.Acquire(soon(t), spec, nil)
	bad := (*BuildError)(nil)
	if !errors.As(err, &bad) || bad.Reason != Failed || !strings.Contains(bad.Output, "503") {
		t.Errorf("%v, %+v", err, env)
	}
}

func TestKeyCoversAllInputsOfABuild(t *testing.T) {
	uv := newFakeUv(t)
	s := open(t, Config{Uv: uv.path})
	a, b := ready(t, s, needs("a")), ready(t, s, needs("b"))
	same := ready(t, s, specOf(strings.ReplaceAll(needs("a").Text, "\n", "  \r\n")))
	locked := needs("a")
	locked.Lock = []byte("version = 7\n")
	c := ready(t, s, locked)
	if a.Key == b.Key || a.Key == c.Key || a.Key != same.Key {
		t.Error(a.Key, b.Key, c.Key, same.Key)
	}
	is := interpreter{Implementation: "cpython", Build: "3.11.7-final0 x", Platform: "linux-x86_64"}
	key := wish("d", is, nil)
	for _, other := range []interpreter{
		{Implementation: "pypy", Build: is.Build, Platform: is.Platform},
		{Implementation: is.Implementation, Build: "3.11.8-final0 x", Platform: is.Platform},
		{Implementation: is.Implementation, Build: is.Build, Platform: "linux-aarch64"},
	} {
		if wish("d", other, nil) == key {
			t.Errorf("%+v makes the same key", other)
		}
	}
	is.Path = "/elsewhere"
	if wish("d", is, nil) != key {
		t.Error("where Python lies is in the key")
	}
}

// What is on the disk is found after a restart without a process being started.
func TestAfterARestart(t *testing.T) {
	uv := newFakeUv(t)
	dir := t.TempDir()
	s := open(t, Config{Dir: dir, Uv: uv.path})
	if s.Built(needs("a")) {
		t.Error("it is built before it is")
	}
	env := ready(t, s, needs("a"))
	env.Release()
	p := python(t)
	again := open(t, Config{Dir: dir, Uv: "/nowhere/uv", Interpreter: func() (string, error) { return p, nil }})
	if err := os.Remove(uv.path); err != nil {
		t.Fatal(err)
	}
	if !again.Built(needs("a")) {
		t.Error("it is not there after a restart")
	}
	if other := ready(t, again, needs("a")); other.Key != env.Key || string(other.Lock) != string(env.Lock) {
		t.Error("it is another one")
	}
}

// An environment whose Python was uninstalled is made again, also in use.
func TestMissingPythonIsRebuilt(t *testing.T) {
	uv := newFakeUv(t)
	s := open(t, Config{Uv: uv.path})
	env := ready(t, s, needs("a"))
	if err := os.Remove(env.Interpreter); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/nowhere/python", env.Interpreter); err != nil {
		t.Fatal(err)
	}
	if s.Built(needs("a")) {
		t.Error("it counts as built")
	}
	again := ready(t, s, needs("a"))
	if _, err := os.Stat(again.Interpreter); err != nil || again.Key != env.Key {
		t.Error(err, again.Key)
	}
}

func TestAWrongDigest(t *testing.T) {
	s := open(t, Config{Uv: newFakeUv(t).path})
	spec := needs("a")
	spec.Digest = Digest("else")
	if _, err := s.Acquire(soon(t), spec, nil); err == nil {
		t.Error("the text of another digest is built")
	}
}

func TestTextThatCannotBeBuilt(t *testing.T) {
	s := open(t, Config{Uv: newFakeUv(t).path})
	_, err := s.Acquire(soon(t), specOf("[project\n"), nil)
	bad := (*BuildError)(nil)
	if !errors.As(err, &bad) || bad.Reason != Invalid {
		t.Error(err)
	}
	if s.Built(specOf("[project\n")) {
		t.Error("built")
	}
}

func readPid(t *testing.T, uv *fakeUv) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(uv.dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// running tells whether a process is alive; one that nobody waited for is not.
func running(pid int) bool {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return syscall.Kill(pid, 0) == nil
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}
