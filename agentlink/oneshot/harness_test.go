package oneshot

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// limit bounds every wait.
const limit = 60 * time.Second

// record keeps a program's output and events, up to a bound per stream.
type record struct {
	mu     sync.Mutex
	out    [2]bytes.Buffer
	total  [2]int64
	events []surfaces.Event
	said   chan struct{} // gets a token for output, if there is room
}

const recorded = 8 << 20

func newRecord() *record { return &record{said: make(chan struct{}, 1)} }

func (r *record) Output(stream string, p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := 0
	if stream == surfaces.StreamStderr {
		i = 1
	}
	r.total[i] += int64(len(p))
	r.out[i].Write(p[:min(len(p), max(0, recorded-r.out[i].Len()))])
	select {
	case r.said <- struct{}{}:
	default:
	}
}

func (r *record) Event(e surfaces.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *record) stdout() string { return r.text(0) }
func (r *record) stderr() string { return r.text(1) }

func (r *record) text(i int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out[i].String()
}

// await waits until the output satisfies ok.
func (r *record) await(t *testing.T, ok func(stdout string) bool) string {
	t.Helper()
	timeout := time.After(limit)
	for {
		if text := r.stdout(); ok(text) {
			return text
		}
		select {
		case <-r.said:
		case <-timeout:
			t.Fatalf("the program has only printed %q", r.stdout())
		}
	}
}

// host answers uses by a function.
type host func(u surfaces.Use) any

var hosts sync.Mutex // the functions of tests need not care for who asks at the same time

func (h host) Ask(u surfaces.Use) func(context.Context) json.RawMessage {
	return func(context.Context) json.RawMessage {
		hosts.Lock()
		defer hosts.Unlock()
		b, err := json.Marshal(h(u))
		if err != nil {
			panic(err)
		}
		return b
	}
}

func newRunner(t testing.TB) *Runner {
	t.Helper()
	level := slog.LevelWarn
	r, err := New(Config{Dir: filepath.Join(t.TempDir(), "calls"), Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(r.dir); err != nil || len(left) > 0 {
			t.Errorf("folders are left: %v %v", left, err)
		}
	})
	return r
}

// needs returns a Runner, or skips the test if the machine lacks the language.
func needs(t testing.TB, language surfaces.Language) *Runner {
	t.Helper()
	r := newRunner(t)
	if _, ok := r.program(context.Background(), language); !ok {
		t.Skipf("this machine has no %s", language)
	}
	return r
}

// eachWay runs a test with a program that is started for each call, and with one that was
// started or forked in advance, as later calls find it.
func eachWay(t *testing.T, name string, language surfaces.Language, test func(t *testing.T, r *Runner)) {
	t.Run(name+" started", func(t *testing.T) {
		r := needs(t, language)
		r.interpreters.noZygote, _ = r.program(t.Context(), surfaces.Python)
		r.shells.closed = true
		test(t, r)
	})
	t.Run(name+" ahead", func(t *testing.T) {
		r := needs(t, language)
		ahead(t, r, language)
		test(t, r)
	})
}

// ahead returns when a place for a program of a language is ready.
func ahead(t *testing.T, r *Runner, language surfaces.Language) {
	t.Helper()
	if res, _ := run(t, r, language, "true = 1"); res.Status != surfaces.StatusDone {
		t.Fatalf("got %+v, want Status %v", res, surfaces.StatusDone)
	}
	r.tasks.Wait()
	if len(r.interpreters.ready)+len(r.shells.ready) != 1 {
		t.Fatal("nothing waits")
	}
}

// run runs a program until it ends.
func run(t testing.TB, r *Runner, language surfaces.Language, code string, change ...func(*Request)) (surfaces.Result, *record) {
	t.Helper()
	req := Request{CallID: "c1", Language: string(language), Code: code, Timeout: limit}
	for _, f := range change {
		f(&req)
	}
	out := newRecord()
	res := r.Run(context.Background(), req, out, nil)
	if res.CallID != "c1" || res.Language == nil || *res.Language != language || res.DurationMS <= 0 {
		t.Errorf("got %+v, want CallID \"c1\", Language %v, DurationMS more than 0", res, language)
	}
	return res, out
}

func within(d time.Duration) func(*Request) { return func(r *Request) { r.Timeout = d } }

func code(res surfaces.Result) string {
	if res.Code == nil {
		return string(res.Status)
	}
	return string(*res.Code)
}
