package shell

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/surfaces"
)

// patience bounds every wait of a test. It is far beyond what a busy machine
// needs, so that running into it means that something hangs.
const patience = 60 * time.Second

// way is one way of serving a shell, with its compiled part or without; every test of the
// table runs on each.
type way struct {
	name     string
	language surfaces.Language
	built    bool
}

var ways = []way{
	{"bash", surfaces.Bash, false},
	{"bash-loadable", surfaces.Bash, true},
	{"sh", surfaces.Sh, false},
	{"sh-preload", surfaces.Sh, true},
	{"zsh", surfaces.Zsh, false},
	{"zsh-preload", surfaces.Zsh, true},
}

// onEach runs a test with every way that this machine has, one container each.
func onEach(t *testing.T, test func(t *testing.T, b *bench)) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) { test(t, open(t, w)) })
	}
}

// only runs a test with the ways of the given languages.
func only(t *testing.T, test func(t *testing.T, b *bench), languages ...surfaces.Language) {
	for _, w := range ways {
		for _, l := range languages {
			if w.language == l {
				t.Run(w.name, func(t *testing.T) { test(t, open(t, w)) })
			}
		}
	}
}

// bench is a family in a container of its own.
type bench struct {
	t         testing.TB
	way       way
	family    *Family
	workspace string
	log       *logbook
}

// logbook keeps what was logged, to be shown when a test fails.
type logbook struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func open(t testing.TB, w way) *bench {
	t.Helper()
	b := openWith(t, w, cache)
	if w.built && b.family.builtin == "" && b.family.preload == "" {
		if _, err := exec.LookPath("cc"); err != nil {
			t.Skip("this machine has no C compiler")
		}
		t.Fatal("the compiled part is not used: ", b.log)
	}
	return b
}

// openWith opens a family with its own directory for compiled programs, which is hidden in
// the container.
func openWith(t testing.TB, w way, cache string) *bench {
	t.Helper()
	path := Locate()[w.language]
	if path == "" {
		t.Skipf("this machine has no %s", w.language)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	workspace := t.TempDir()
	book := &logbook{}
	log := slog.New(slog.NewTextHandler(book, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c, err := sandbox.Open(ctx, sandbox.Config{Name: "test", Workspace: workspace, Hide: []string{cache}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	// A test program that stands in for the command would sleep a second at its end
	// when it was built with the race detector.
	env := append(sandbox.Environment(workspace), "GORACE=atexit_sleep_ms=0")
	f, err := NewFamily(ctx, Config{
		Container: c, Language: w.language, Path: path, Workspace: workspace,
		Scratch: filepath.Join(workspace, ".locus"), Env: env, Log: log,
		CacheDir: cache, NoBuild: !w.built,
	})
	if err != nil {
		c.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error("close the family:", err)
		}
		if err := c.Close(); err != nil {
			t.Error("close the container:", err)
		}
		if _, err := os.Stat(f.dir); !os.IsNotExist(err) {
			t.Error("the family left its directory behind:", err)
		}
		if t.Failed() {
			t.Log(book.String())
		}
	})
	return &bench{t: t, way: w, family: f, workspace: workspace, log: book}
}

// in gives the same bench for a test within the test.
func (b *bench) in(t testing.TB) *bench {
	c := *b
	c.t = t
	return &c
}

// tape is a Tap that keeps all.
type tape struct {
	mu      sync.Mutex
	streams [3]bytes.Buffer
}

func (t *tape) Output(s kernel.Stream, p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.streams[s].Write(p)
}

func (t *tape) text(s kernel.Stream) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.streams[s].String()
}

// outcome is all that one program gave.
type outcome struct {
	out, err string
	code     int
	report   kernel.Report
	failure  error
	tape     *tape
}

func (b *bench) start(kind kernel.Kind) kernel.Kernel {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	k, err := b.family.Start(ctx, kind, "test")
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(k.Kill)
	return k
}

func (b *bench) session() *seat { return &seat{b: b, k: b.start(kernel.Session)} }

// once runs a program in a one-shot.
func (b *bench) once(code string) outcome {
	b.t.Helper()
	k := b.start(kernel.OneShot)
	defer k.Kill()
	return (&seat{b: b, k: k}).run(code)
}

// seat is a kernel at work in a test.
type seat struct {
	b *bench
	k kernel.Kernel
	n atomic.Int64 // the number of the last program
}

// interrupt interrupts the last program.
func (s *seat) interrupt() error { return s.k.Interrupt(int(s.n.Load())) }

func (s *seat) run(code string) outcome { return s.program(kernel.Program{Code: code}) }

// begin starts a program and gives what waits for its end.
func (s *seat) begin(code string) (started <-chan struct{}, wait func() outcome) {
	begun := make(chan struct{})
	ended := make(chan outcome, 1)
	go func() {
		ended <- s.program(kernel.Program{Code: code, Started: func() { close(begun) }})
	}()
	return begun, func() outcome { return <-ended }
}

func (s *seat) program(p kernel.Program) outcome {
	s.b.t.Helper()
	p.Number = int(s.n.Add(1))
	if p.Tap == nil {
		p.Tap = &tape{}
	}
	late := time.AfterFunc(patience, func() {
		s.b.t.Errorf("hangs: %.200q\n%s", p.Code, s.b.log)
		s.k.Kill()
	})
	defer late.Stop()
	report, err := s.k.Run(context.Background(), p)
	o := outcome{report: report, failure: err, tape: p.Tap.(*tape)}
	o.out, o.err = o.tape.text(kernel.Stdout), o.tape.text(kernel.Stderr)
	if report.ExitCode != nil {
		o.code = *report.ExitCode
	} else if err == nil {
		s.b.t.Errorf("no exit code: %q", p.Code)
	}
	return o
}

// want runs a program and compares all that it gives.
func (s *seat) want(code, out string, status int) {
	s.b.t.Helper()
	o := s.run(code)
	if o.failure != nil || o.out != out || o.code != status {
		s.b.t.Errorf("%.300q:\n gave %.500q, status %d, error %v, stderr %.500q\n want %.500q, status %d", code, o.out, o.code, o.failure, o.err, out, status)
	}
}

// fork copies the kernel.
func (s *seat) fork(kind kernel.Kind) (*seat, []surfaces.Notice) {
	s.b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	k, notices, err := s.k.Fork(ctx, kind, "fork")
	if err != nil {
		s.b.t.Fatal(err)
	}
	s.b.t.Cleanup(k.Kill)
	return &seat{b: s.b, k: k}, notices
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// token is the kernel's secret, and dropped counts what did not have it.
func (s *seat) token() (token string, dropped int64) {
	switch k := s.k.(type) {
	case *session:
		return string(k.control.token), k.control.dropped.Load()
	case *resident:
		return string(k.channel.token), k.channel.dropped.Load()
	}
	s.b.t.Fatalf("a %T has no token", s.k)
	return "", 0
}
