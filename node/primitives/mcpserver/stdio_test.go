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
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/locusrun/locus/node/primitives"
	"github.com/locusrun/locus/surfaces"
)

// failure calls a function that must fail with an error for the code.
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
