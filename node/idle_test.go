package node_test

import (
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/locusrun/locus/node"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/surfaces"
)

// followEvents streams the mesh's events. The world must be an operator's.
func (w *world) followEvents(t testing.TB) <-chan event {
	t.Helper()
	req := w.newRequest(t.Context(), "GET", "/v1/events", nil)
	req.Header.Set("Accept", "text/event-stream")
	return w.events(req)
}

// states returns the sessions by name.
func (w *world) states(t *testing.T) map[string]gateway.SessionInfo {
	t.Helper()
	states := map[string]gateway.SessionInfo{}
	for _, s := range w.sessions(t) {
		if s.SessionName != nil {
			states[*s.SessionName] = s
		}
	}
	return states
}

// lostFor reports whether a session is lost for a reason.
func lostFor(s gateway.SessionInfo, reason string) bool {
	return s.State == "lost" && s.StateLost.Loss != nil && s.StateLost.Reason == reason
}

// The death of an idle session's process is reported when it happens, not at the next call.
func TestADeathWhileIdleIsReportedAtOnce(t *testing.T) {
	w := start(t, t.TempDir())
	happenings := w.followEvents(t)
	for _, language := range []string{"python", "python in an environment", "bash", "zsh", "sh"} {
		t.Run(language, func(t *testing.T) {
			name, environment := strings.CutSuffix(language, " in an environment")
			at := args{"language": name, "state_mode": "stateful", "session_name": language}
			pid := "import os; print(os.getpid())"
			if name != "python" {
				w.needs(t, name)
				pid = "sh -c 'echo $PPID'; :" // $$ is another process in some shells
			}
			if environment {
				at["venv_id"] = w.venv("[project]\nname = \"empty\"\nversion = \"1\"\ndependencies = []\n")
			}
			res := w.exec(at.with(args{"code": pid}))
			needsIndex(t, res)
			ok(t, res)
			ok(t, w.once("import os; os.kill("+strings.TrimSpace(res.Stdout)+", 9)"))
			e := await(t, happenings, "session_lost")
			data, _ := e.data["data"].(map[string]any)
			if data["language"] != name || data["reason"] != "process_died" {
				t.Fatalf("told %v", e.data)
			}
			eventually(t, "the list shows it", func() bool { return lostFor(w.states(t)[language], "process_died") })
			res = ok(t, w.exec(at.with(args{"code": pid})))
			if res.Attempts != 1 || res.StateLost.Loss == nil || res.StateLost.Reason != "process_died" {
				t.Fatalf("got %s, want Attempts 1, loss reason \"process_died\"", show(res))
			}
		})
	}
}

// Sessions that nobody uses are closed, and their next caller is told. Sessions in which
// something runs, and those that a caller asked to keep, stay open.
func TestIdleSessionsAreClosed(t *testing.T) {
	w := start(t, t.TempDir(), func(c *node.Config) { c.SessionIdle = 3 * time.Second })
	happenings := w.followEvents(t)
	keep := func(session, code string, more args) surfaces.Result {
		return w.exec(args{"code": code, "state_mode": "stateful", "session_name": session}.with(more))
	}
	ok(t, keep("kept", "x = 1", args{"keep": true}))
	ok(t, keep("thread", `
import threading
def work():
    while True: sum(range(10_000))
threading.Thread(target=work, daemon=True).start()`, nil))
	ok(t, keep("job", "x=1; sleep 1000 &", args{"language": "bash"}))
	var plain []string
	for _, language := range w.languages(t) {
		ok(t, keep("plain "+language, "", args{"language": language}))
		plain = append(plain, "plain "+language)
	}
	eventually(t, "sessions that nobody uses are lost", func() bool {
		states := w.states(t)
		for _, name := range plain {
			if !lostFor(states[name], "idle") {
				return false
			}
		}
		return true
	})
	if e := await(t, happenings, "session_lost"); e.data["data"].(map[string]any)["reason"] != "idle" {
		t.Errorf("told %v", e.data)
	}
	// Closing another one takes the same time again.
	ok(t, keep("later", "x = 1", nil))
	eventually(t, "another one is lost", func() bool { return lostFor(w.states(t)["later"], "idle") })
	value(t, w.read("kept", "x"), "1")
	value(t, w.read("thread", "threading.active_count() > 0"), "true")
	stdout(t, keep("job", "echo $x; jobs -r | wc -l", args{"language": "bash"}), "1\n1\n")

	if res := code(t, w.read("later", "x"), surfaces.CodeSessionLost); res.StateLost.Loss == nil || res.StateLost.Reason != "idle" {
		t.Errorf("got %s, want loss reason \"idle\"", show(res))
	}
	res := w.keep("later", "'x' in globals()")
	value(t, res, "false")
	if res.StateLost.Loss == nil || res.StateLost.Reason != "idle" || res.Attempts != 1 {
		t.Errorf("got %s, want loss reason \"idle\", Attempts 1", show(res))
	}
	if res := w.keep("later", "1"); res.StateLost.Loss != nil {
		t.Error("told twice: " + show(res))
	}
	ok(t, keep("kept", "1", args{"keep": false}))
	eventually(t, "what is kept no more is lost", func() bool { return lostFor(w.states(t)["kept"], "idle") })
	code(t, w.exec(args{"code": "1", "keep": true}), surfaces.CodeInvalidArgument)
}

// languages returns the languages that the node runs.
func (w *world) languages(t testing.TB) []string {
	t.Helper()
	var s gateway.StatusInfo
	w.get("/v1/status", &s)
	return s.Languages
}

// A node that is short of memory says so, accepts no new sessions, and keeps those that it
// has.
func TestMemoryPressure(t *testing.T) {
	var available atomic.Int64
	available.Store(8 << 30)
	w := start(t, t.TempDir(), func(c *node.Config) {
		c.Memory = func() (sandbox.Memory, error) {
			return sandbox.Memory{Total: 16 << 30, Available: available.Load()}, nil
		}
	})
	happenings := w.followEvents(t)
	pressure := func(level string, on bool) {
		t.Helper()
		data := await(t, happenings, "memory_pressure").data["data"].(map[string]any)
		if data["level"] != level || data["on"] != on || data["low_bytes"] != float64(512<<20) {
			t.Fatalf("told %v", data)
		}
	}
	ok(t, w.keep("s", "x = 1"))
	available.Store(300 << 20)
	pressure("low", true)
	ok(t, w.keep("another", "x = 2"))
	ok(t, w.once("1"))

	available.Store(100 << 20)
	pressure("critical", true)
	res := code(t, w.keep("third", "1"), surfaces.CodeNoCapacity)
	if res.Status != surfaces.StatusRefused || res.Suggestion == nil {
		t.Errorf("got %s, want Status %v, a Suggestion", show(res), surfaces.StatusRefused)
	}
	if states := w.states(t); len(states) != 2 {
		t.Errorf("the session that has not come to be is kept: %v", states)
	}
	value(t, w.keep("s", "x"), "1")
	value(t, w.read("another", "x"), "2")
	value(t, w.exec(args{"code": "x += 1; x", "state_mode": "stateful", "session_name": "s", "atomic": true}), "2")
	eventually(t, "nothing is left that can be freed", func() bool {
		res := w.once("1")
		return res.Code != nil && *res.Code == surfaces.CodeNoCapacity
	})
	var s gateway.StatusInfo
	if w.get("/v1/status", &s); s.MemoryPressure != "critical" || s.MemoryAvailableBytes != 100<<20 {
		t.Errorf("the status: %+v", s)
	}
	if m := w.metrics(t); !strings.Contains(m, "locus_memory_pressure 2\n") || !strings.Contains(m, "locus_memory_available_bytes 1.048576e+08\n") {
		t.Error("the metrics do not tell")
	}

	available.Store(8 << 30)
	pressure("low", true) // it does not end at once
	ok(t, w.keep("third", "1"))
	value(t, w.once("1"), "1")
	value(t, w.keep("s", "x"), "2")
}

// metrics returns the text of /metrics.
func (w *world) metrics(t testing.TB) string {
	t.Helper()
	resp, err := w.request(t.Context(), "GET", "/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
