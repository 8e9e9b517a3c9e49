package python_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/kernel/python"
	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/surfaces"
)

func TestMain(m *testing.M) {
	sandbox.RunKeeperIfAsked()
	goleak.VerifyTestMain(m)
}

// limit is how long a test waits for what should take milliseconds.
const limit = 60 * time.Second

// tape records the output of one call.
type tape struct {
	mu  sync.Mutex
	out [3]bytes.Buffer
}

func (t *tape) Output(s kernel.Stream, p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.out[s].Write(p)
}

func (t *tape) stdout() string { return t.text(kernel.Stdout) }
func (t *tape) stderr() string { return t.text(kernel.Stderr) }

func (t *tape) text(s kernel.Stream) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.out[s].String()
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, limit)
		}
		time.Sleep(2 * time.Millisecond) // a poll of something that sends no signal
	}
}

// house is a container with a family in it.
type house struct {
	t         testing.TB
	family    *python.Family
	container *sandbox.Container
	workspace string
	interp    string
}

func interpreter(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("LOCUS_TEST_PYTHON"); path != "" {
		return path
	}
	path, err := python.Locate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func newHouse(t testing.TB, change ...func(*python.Config)) *house {
	t.Helper()
	return newLimitedHouse(t, sandbox.Limits{}, change...)
}

// newLimitedHouse is a house whose container has limits.
func newLimitedHouse(t testing.TB, limits sandbox.Limits, change ...func(*python.Config)) *house {
	t.Helper()
	h := &house{t: t, workspace: filepath.Join(t.TempDir(), "workspace"), interp: interpreter(t)}
	if err := os.Mkdir(h.workspace, 0o755); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var err error
	h.container, err = sandbox.Open(ctx, sandbox.Config{
		Name: "test", Workspace: h.workspace, Limits: limits, Log: log, NoCgroups: os.Getenv("LOCUS_TEST_NO_CGROUPS") != "",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.container.Close(); err != nil {
			t.Error(err)
		}
	})
	cfg := python.Config{
		Container: h.container, Interpreter: h.interp, Workspace: h.workspace,
		Env: sandbox.Environment(h.workspace), Log: log,
	}
	for _, f := range change {
		f(&cfg)
	}
	h.family, err = python.NewFamily(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.family.Close() })
	return h
}

// pythonConfig is a shorter name for what tests change.
type pythonConfig = python.Config

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", p)
	return len(p), nil
}

// session is a kernel and its count of programs.
type session struct {
	t testing.TB
	kernel.Kernel
	n atomic.Int64
}

func (h *house) start(kind kernel.Kind) *session {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), limit)
	defer cancel()
	k, err := h.family.Start(ctx, kind, "test")
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(k.Kill)
	return &session{t: h.t, Kernel: k}
}

func (h *house) session() *session { h.t.Helper(); return h.start(kernel.Session) }

// outcome is all that a call gave.
type outcome struct {
	kernel.Report
	*tape
	events []kernel.Event
	err    error
}

func (o outcome) result() string { return string(o.Result) }

func (o outcome) exception() surfaces.Exception {
	if o.Exception == nil {
		return surfaces.Exception{}
	}
	return *o.Exception
}

// interrupt interrupts the last program.
func (s *session) interrupt() error { return s.Interrupt(int(s.n.Load())) }

func (s *session) try(p kernel.Program) outcome {
	o := outcome{tape: &tape{}}
	p.Number = int(s.n.Add(1))
	p.Tap = o.tape
	events := p.Events
	p.Events = func(e kernel.Event) {
		o.events = append(o.events, e)
		if events != nil {
			events(e)
		}
	}
	o.Report, o.err = s.Run(context.Background(), p)
	return o
}

// run runs code that must leave the kernel alive.
func (s *session) run(code string) outcome {
	s.t.Helper()
	return s.program(kernel.Program{Code: code})
}

func (s *session) program(p kernel.Program) outcome {
	s.t.Helper()
	o := s.try(p)
	if o.err != nil {
		s.t.Fatalf("run %.200q: %v\n%s", p.Code, o.err, o.stderr())
	}
	return o
}

// must runs code that must not raise.
func (s *session) must(code string) outcome {
	s.t.Helper()
	o := s.run(code)
	if o.Exception != nil {
		s.t.Fatalf("run %.200q: %s, want no o.Exception", code, o.Exception.Traceback)
	}
	return o
}

// expect runs code whose result must be the JSON text.
func (s *session) expect(code, want string) {
	s.t.Helper()
	if got := s.must(code).result(); got != want {
		s.t.Fatalf("%.200q gave %.500s, want %s", code, got, want)
	}
}

// once runs a stateless program.
func (h *house) once(p kernel.Program) outcome {
	h.t.Helper()
	s := h.start(kernel.OneShot)
	defer s.Kill()
	return s.try(p)
}

// fork makes a copy or a second session.
func (s *session) fork(kind kernel.Kind) (*session, []surfaces.Notice) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	k, notices, err := s.Fork(ctx, kind, "copy")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(k.Kill)
	return &session{t: s.t, Kernel: k}, notices
}

// TestWorkerSuite runs the worker's own tests.
func TestWorkerSuite(t *testing.T) {
	python := interpreter(t)
	if err := exec.Command(python, "-c", "import pytest, hypothesis").Run(); err != nil {
		t.Skip("pytest and hypothesis are not in this Python; LOCUS_TEST_PYTHON names one that has them")
	}
	cmd := exec.Command(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "worker_test")
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestOneShotRunsAndReports(t *testing.T) {
	h := newHouse(t)
	o := h.once(kernel.Program{Code: "import sys\nprint('hello')\nprint('trouble', file=sys.stderr)\n6 * 7"})
	if o.err != nil || o.result() != "42" || o.ResultType != "int" || o.stdout() != "hello\n" || o.stderr() != "trouble\n" {
		t.Fatalf("got %+v, output %q, errors %q; want the int 42, \"hello\", \"trouble\"", o.Report, o.stdout(), o.stderr())
	}
	if !o.Replaced {
		t.Fatal("a one-shot can be used once only")
	}
}

func TestSessionKeepsItsState(t *testing.T) {
	s := newHouse(t).session()
	s.must("x = 1")
	s.expect("x + 1", "2")
	for range 100 {
		s.must("x += 1")
	}
	s.expect("x", "101")
}

// At the container's limit of processes a start is refused, and the zygote lives to make
// the next one.
func TestStartsAtTheLimitOfProcesses(t *testing.T) {
	h := newLimitedHouse(t, sandbox.Limits{Processes: 60})
	if by := h.container.Enforced().ContainerProcesses; by != sandbox.ByCgroup1 && by != sandbox.ByCgroup2 {
		t.Skipf("the limit is enforced by %q here, which root does not feel", by)
	}
	h.family.Warm(false)
	s := h.session()
	s.must(`
import os, signal
children = []
try:
    while len(children) < 200:
        if (pid := os.fork()) == 0:
            while True:
                signal.pause()
        children.append(pid)
except BlockingIOError:
    full = True
`)
	s.expect("full", "true")
	for range 2 {
		if _, err := h.family.Start(t.Context(), kernel.OneShot, "test"); !errors.Is(err, unix.EAGAIN) {
			t.Fatalf("a start at the limit: %v", err)
		}
	}
	s.must("for pid in children:\n    os.kill(pid, signal.SIGKILL); os.waitpid(pid, 0)")
	if o := h.once(kernel.Program{Code: "6 * 7"}); o.result() != "42" {
		t.Fatalf("got %+v, error %v; want the result 42", o.Report, o.err)
	}
}
