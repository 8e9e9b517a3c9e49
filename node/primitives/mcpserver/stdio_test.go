package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/locusrun/locus/node/primitives"
	"github.com/locusrun/locus/surfaces"
)

// failure calls a function that shall fail with an error for the code.
func failure(t *testing.T, s *Server, name, arguments string) *primitives.Error {
	t.Helper()
	v, err := s.Call(within(t), name, json.RawMessage(arguments))
	var e *primitives.Error
	if !errors.As(err, &e) {
		t.Fatalf("%s gave %.300s and the error %v", name, v.Result, err)
	}
	return e
}

func TestFunctions(t *testing.T) {
	t.Parallel()
	s := open(t, stdio(t, "tools"))
	if st := s.State(); st.Status != Stopped || len(st.Functions) != 0 {
		t.Fatalf("before the first use: %+v", st)
	}
	list, err := s.Functions(within(t))
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]primitives.Function{}
	for _, f := range list {
		by[f.Name] = f
	}
	if len(by) < 15 {
		t.Errorf("only %d functions: pages were not followed", len(by))
	}
	echo := by["box.echo"]
	if !echo.ReadOnly || echo.Destructive || echo.Description != "Gives the text back." {
		t.Errorf("echo: %+v", echo)
	}
	var schema struct{ Required []string }
	if err := json.Unmarshal(echo.Schema, &schema); err != nil || !reflect.DeepEqual(schema.Required, []string{"text"}) {
		t.Errorf("the schema of echo: %s, %v", echo.Schema, err)
	}
	if f := by["box.append_only"]; f.ReadOnly || f.Destructive {
		t.Errorf("append-only: %+v", f)
	}
	if f := by["box.fail"]; f.ReadOnly || !f.Destructive {
		t.Errorf("a tool without hints: %+v", f)
	}
	if st := s.State(); st.Status != Running || len(st.Functions) != len(list) {
		t.Errorf("after the first use: %+v", st)
	}
}

func TestResults(t *testing.T) {
	t.Parallel()
	s := open(t, stdio(t, "tools"))
	for _, c := range []struct {
		function, arguments, want string
		display                   []surfaces.Display
	}{
		{"echo", `{"text": "[1, 2]"}`, `"[1, 2]"`, nil},
		{"append_only", ``, `"appended"`, nil},
		{"append_only", `null`, `"appended"`, nil},
		{"count", `{}`, `{"n":9007199254740993}`, nil},
		{"wrapped", `{}`, `{"result":9007199254740993}`, nil},
		{"nothing", `{}`, ``, nil},
		{"picture", `{}`, `{"type":"image","mimeType":"image/png","bytes":4,"data":"iVBORw=="}`, []surfaces.Display{{MIME: "image/png", Data: "iVBORw=="}}},
		{"several", `{}`, `["{\"looks\": \"like JSON\"}",{"type":"audio","mimeType":"audio/wav","bytes":4,"data":"UklGRg=="},` +
			`{"type":"resource_link","uri":"file:///a","name":"a"},{"type":"resource","resource":{"uri":"file:///b","text":"b"}}]`,
			[]surfaces.Display{{MIME: "audio/wav", Data: "UklGRg=="}}},
	} {
		v := call(t, s, c.function, c.arguments)
		if string(v.Result) != c.want || !reflect.DeepEqual(v.Display, c.display) {
			t.Errorf("%s gave %s and shows %v", c.function, v.Result, v.Display)
		}
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	cfg := stdio(t, "tools")
	cfg.Allow = []string{"echo", "append-only", "grow", "shrink", "fail", "broken", "ask", "twin"}
	s := open(t, cfg)
	call(t, s, "append_only", "") // allowed by the tool's own name
	for _, c := range []struct{ name, arguments, kind, says string }{
		{"box.fail", `{}`, primitives.ErrorFailed, "the disk is full"},
		{"box.broken", `{}`, primitives.ErrorFailed, "a fault of the server"},
		{"box.ask", `{}`, primitives.ErrorFailed, "asks a person"},
		{"box.echo", `{"text": 5}`, primitives.ErrorFailed, "text"},
		{"box.echo", `["text"]`, primitives.ErrorInvalid, "JSON object"},
		{"box.echo", `{"text": `, primitives.ErrorInvalid, "JSON object"},
		{"box.no_such", `{}`, primitives.ErrorUnknown, "box.no_such"},
		{"other.echo", `{}`, primitives.ErrorUnknown, "other.echo"},
		{"box.picture", `{}`, primitives.ErrorForbidden, "box.picture"},
	} {
		e := failure(t, s, c.name, c.arguments)
		if e.Type != c.kind || !strings.Contains(e.Message, c.says) {
			t.Errorf("%s(%s) fails with %s: %s", c.name, c.arguments, e.Type, e.Message)
		}
	}
	list, err := s.Functions(within(t))
	if err != nil || len(list) != 7 {
		t.Errorf("%d functions are listed, not the 7 that are allowed; %v", len(list), err)
	}
}

func TestWhatAServerWantsOfItsClient(t *testing.T) {
	t.Parallel()
	s := open(t, stdio(t, "tools"))
	s.ways[0].version = lastHandshake // with it a server may ask by itself
	if e := failure(t, s, "box.ask", `{}`); e.Type != primitives.ErrorFailed && e.Type != primitives.ErrorInvalid || !strings.Contains(e.Message, "elicitation") {
		t.Errorf("%+v", e)
	}
	if v := call(t, s, "chat", `{}`); string(v.Result) != `"said"` {
		t.Errorf("it gave %s", v.Result)
	}
}

func TestToolsThatComeAndGo(t *testing.T) {
	t.Parallel()
	s := open(t, stdio(t, "tools"))
	has := func(name string) bool {
		list, err := s.Functions(within(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list {
			if f.Name == "box."+name {
				return true
			}
		}
		return false
	}
	call(t, s, "grow", `{"text": "twin"}`)
	eventually(t, "the new tool is listed", func() bool { return has("twin") })
	if v := call(t, s, "twin", `{}`); string(v.Result) != `"I am twin"` {
		t.Errorf("the new tool gave %s", v.Result)
	}
	call(t, s, "shrink", `{"text": "twin"}`)
	if e := failure(t, s, "box.twin", `{}`); e.Type != primitives.ErrorUnknown {
		t.Errorf("a tool that is gone: %+v", e)
	}
	eventually(t, "the tool is no longer listed", func() bool { return !has("twin") })
}

func TestCallsRunInParallel(t *testing.T) {
	t.Parallel()
	s := open(t, stdio(t, "tools"))
	ctx, cancel := context.WithCancel(within(t))
	dir := t.TempDir()
	var calls sync.WaitGroup
	const n = 100
	for i := range n {
		calls.Go(func() {
			args := fmt.Sprintf(`{"text": %q}`, filepath.Join(dir, strconv.Itoa(i)))
			if _, err := s.Call(ctx, "box.hang", json.RawMessage(args)); !errors.Is(err, context.Canceled) {
				t.Errorf("a call that was cancelled: %v", err)
			}
		})
	}
	count := func(what string) (n int) {
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if b, err := os.ReadFile(f); err == nil && string(b) == what {
				n++
			}
		}
		return n
	}
	eventually(t, "all calls are under way at once", func() bool { return count("begun") == n })
	cancel()
	calls.Wait()
	eventually(t, "the server has heard that all were cancelled", func() bool { return count("cancelled") == n })
	call(t, s, "echo", `{"text": "still here"}`)
}

func TestEnvironmentIsClean(t *testing.T) {
	t.Setenv("LOCUS_TEST_SECRET", "hunter2")
	cfg := stdio(t, "tools")
	cfg.Env["EXTRA"] = "a=b"
	var text string
	if err := json.Unmarshal(call(t, open(t, cfg), "environment", "").Result, &text); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, v := range strings.Split(text, "\n") {
		name, _, _ := strings.Cut(v, "=")
		names[name] = true
	}
	want := map[string]bool{"PATH": true, "HOME": true, "EXTRA": true, "GORACE": true, roleVariable: true, markVariable: true}
	if !reflect.DeepEqual(names, want) || !strings.Contains(text, "EXTRA=a=b\n") {
		t.Errorf("the environment of a server:\n%s", text)
	}
}

// The ways in which a program leaves a process behind: one leaves its process
// group, the other its environment.
var daemons = []string{`{"text": "setsid"}`, `{"text": "env -i"}`}

// number calls a function that gives the number of a process.
func number(t *testing.T, s *Server, function, arguments string) int {
	t.Helper()
	var text string
	if err := json.Unmarshal(call(t, s, function, arguments).Result, &text); err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// alive says whether a process runs; one that only waits to be counted does not.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

func TestAServerThatIsKilledIsStartedAgain(t *testing.T) {
	t.Parallel()
	s := open(t, stdio(t, "tools"))
	pid := number(t, s, "pid", "")
	file := filepath.Join(t.TempDir(), "file")
	failed := make(chan error, 1)
	go func() {
		_, err := s.Call(within(t), "box.hang", json.RawMessage(fmt.Sprintf(`{"text": %q}`, file)))
		failed <- err
	}()
	eventually(t, "the call is under way", func() bool { _, err := os.Stat(file); return err == nil })
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	err := <-failed
	var e *primitives.Error
	if !errors.As(err, &e) || e.Type != primitives.ErrorProvider ||
		!strings.Contains(e.Message, "signal: killed") || !strings.Contains(e.Message, "may or may not have been performed") {
		t.Errorf("the call under way: %v", err)
	}
	eventually(t, "the death is known without a call", func() bool { return s.State().Status == Failed })
	if st := s.State(); !strings.Contains(st.Error, "signal: killed") || len(st.Functions) == 0 {
		t.Errorf("while it is down: %+v", st)
	}
	if list, err := s.Functions(within(t)); err != nil || len(list) == 0 || s.State().Status != Failed {
		t.Errorf("while it is down, %d functions are told, and %v", len(list), err)
	}
	if again := number(t, s, "pid", ""); again == pid {
		t.Error("the dead process answers")
	}
}

func TestACallThatEndsTheServer(t *testing.T) {
	t.Parallel()
	s := open(t, stdio(t, "tools"))
	if e := failure(t, s, "box.die", `{}`); e.Type != primitives.ErrorProvider || !strings.Contains(e.Message, "exit status 3") {
		t.Errorf("%+v", e)
	}
	call(t, s, "echo", `{"text": "back"}`)
}

// Calls that were answered between its deaths tell a server from one in a loop.
func TestAServerThatWorksIsNotPutOff(t *testing.T) {
	t.Parallel()
	s := open(t, stdio(t, "tools"))
	for range 4 {
		failure(t, s, "box.die", `{}`)
		call(t, s, "echo", `{"text": "back"}`)
	}
}

func TestACrashLoopDoesNotSpin(t *testing.T) {
	t.Parallel()
	s := open(t, stdio(t, "crash"))
	for i := range 2 {
		if e := failure(t, s, "box.echo", `{}`); e.Type != primitives.ErrorProvider || !strings.Contains(e.Message, "exit status 7") {
			t.Fatalf("start %d: %+v", i, e)
		}
	}
	var e *primitives.Error
	eventually(t, "a start is put off", func() bool {
		e = failure(t, s, "box.echo", `{}`)
		return strings.Contains(e.Message, "tried again in")
	})
	if e.Type != primitives.ErrorProvider || !strings.Contains(e.Message, "exit status 7") {
		t.Errorf("while it is put off: %+v", e)
	}
	if _, err := s.Functions(within(t)); err == nil {
		t.Error("a server that never ran has functions")
	}
	s.mu.Lock()
	failures := s.failures
	s.failures, s.notUntil = 40, time.Time{} // as after a long time
	s.mu.Unlock()
	if failures < 2 {
		t.Errorf("%d failures were counted", failures)
	}
	failure(t, s, "box.echo", `{}`)
	s.mu.Lock()
	defer s.mu.Unlock()
	if wait := time.Until(s.notUntil); wait > longWait || wait < longWait/2 {
		t.Errorf("after very many failures the next start is %v away", wait)
	}
}

func TestACommandThatDoesNotExist(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Name: "box", Command: []string{"/no/such/program"}})
	if e := failure(t, s, "box.echo", `{}`); e.Type != primitives.ErrorProvider || !strings.Contains(e.Message, "no such file") {
		t.Errorf("%+v", e)
	}
	if st := s.State(); st.Status != Failed || !strings.Contains(st.Error, "/no/such/program") {
		t.Errorf("%+v", st)
	}
}

func TestAStartIsSharedAndOutlivesWhoAskedForIt(t *testing.T) {
	t.Parallel()
	s := open(t, stdio(t, "tools"))
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Functions(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that is gone: %v", err)
	}
	var pids sync.Map
	var calls sync.WaitGroup
	for range 50 {
		calls.Go(func() { pids.Store(number(t, s, "pid", ""), true) })
	}
	calls.Wait()
	n := 0
	pids.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d processes were started", n)
	}
}

func TestAServerThatSaysNothing(t *testing.T) {
	t.Parallel()
	s := open(t, stdio(t, "silent"))
	s.startTime = 200 * time.Millisecond
	if e := failure(t, s, "box.echo", `{}`); e.Type != primitives.ErrorProvider || !strings.Contains(e.Message, "was not ready") {
		t.Errorf("%+v", e)
	}
}

// The server also shows that one which dies of the newer handshake is reached with
// the older one.
func TestAnOldServerThatStopsReading(t *testing.T) {
	t.Parallel()
	s := open(t, stdio(t, "old"))
	if list, err := s.Functions(within(t)); err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	// More than any pipe holds, so that sending cannot end.
	big := json.RawMessage(`{"text": "` + strings.Repeat("x", 4<<20) + `"}`)
	ctx, cancel := context.WithTimeout(within(t), 200*time.Millisecond)
	defer cancel()
	if _, err := s.Call(ctx, "box.listen", big); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestAMessageThatIsTooLarge(t *testing.T) {
	t.Parallel()
	s := open(t, stdio(t, "tools"))
	if e := failure(t, s, "box.huge", `{}`); e.Type != primitives.ErrorProvider || !strings.Contains(e.Message, "more than 16 MiB") {
		t.Errorf("%+v", e)
	}
	call(t, s, "echo", `{"text": "back"}`)
	s = open(t, stdio(t, "flood"))
	if e := failure(t, s, "box.echo", `{}`); e.Type != primitives.ErrorProvider {
		t.Errorf("%+v", e)
	}
}

func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	s := open(t, stdio(t, "tools"))
	pids := []int{number(t, s, "pid", "")}
	for _, by := range daemons {
		pids = append(pids, number(t, s, "daemon", by))
	}
	for _, pid := range pids {
		if !alive(pid) {
			t.Fatalf("%d does not run", pid)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	failed := make(chan error, 1)
	go func() {
		_, err := s.Call(within(t), "box.hang", json.RawMessage(fmt.Sprintf(`{"text": %q}`, file)))
		failed <- err
	}()
	eventually(t, "the call is under way", func() bool { _, err := os.Stat(file); return err == nil })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var e *primitives.Error
	if err := <-failed; !errors.As(err, &e) || e.Type != primitives.ErrorProvider || !strings.Contains(e.Message, "removed") {
		t.Errorf("the call under way: %v", err)
	}
	for i, pid := range pids {
		if alive(pid) {
			t.Errorf("after Close %d of %v lives", i, pids)
		}
	}
	if e := failure(t, s, "box.echo", `{}`); e.Type != primitives.ErrorProvider || s.State().Status != Stopped {
		t.Errorf("a call after Close: %+v, %+v", e, s.State())
	}
}

func TestDaemonsEndWithTheirServer(t *testing.T) {
	t.Parallel()
	s := open(t, stdio(t, "tools"))
	var pids []int
	for _, by := range daemons {
		pids = append(pids, number(t, s, "daemon", by))
	}
	failure(t, s, "box.die", `{}`)
	for _, pid := range pids {
		eventually(t, "a daemon is gone", func() bool { return !alive(pid) })
	}
}

func TestAServerThatWillNotEndIsKilled(t *testing.T) {
	t.Parallel()
	s := open(t, stdio(t, "stubborn"))
	pid := number(t, s, "pid", "")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if alive(pid) {
		t.Error("it lives")
	}
}

// BenchmarkCall prints what a call costs, as a ratio to the same call made with the
// library alone.
func BenchmarkCall(b *testing.B) {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	s := Open(Config{Name: "box", Command: []string{self}, Env: map[string]string{roleVariable: "tools"}}, slog.New(slog.DiscardHandler))
	defer s.Close()
	conn, err := s.connection(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	arguments := json.RawMessage(`{"text": "hello"}`)
	var ours, floor time.Duration
	for b.Loop() {
		start := time.Now()
		if _, err := conn.session.CallTool(b.Context(), &mcp.CallToolParams{Name: "echo", Arguments: arguments}); err != nil {
			b.Fatal(err)
		}
		middle := time.Now()
		if _, err := s.Call(b.Context(), "box.echo", arguments); err != nil {
			b.Fatal(err)
		}
		floor += middle.Sub(start)
		ours += time.Since(middle)
	}
	b.ReportMetric(float64(ours.Nanoseconds())/float64(b.N), "ns/call")
	b.ReportMetric(float64(floor.Nanoseconds())/float64(b.N), "ns/library-call")
	b.ReportMetric(float64(ours)/float64(floor), "ratio")
}
