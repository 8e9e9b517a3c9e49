package node_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

func TestTheTwentyFirstSessionIsRefused(t *testing.T) {
	w := fresh(t)
	for i := range surfaces.MaxSessions - 1 {
		ok(t, w.keep(fmt.Sprint("s", i), "1"))
	}
	ok(t, w.exec(args{"code": "1", "state_mode": "stateful"})) // the default session is not counted
	ok(t, w.keep("s0", "1"))                                   // so s1 is the least recently used
	var all sync.WaitGroup
	results := make(chan surfaces.Result, 6)
	for i := range cap(results) {
		all.Go(func() { results <- w.keep(fmt.Sprint("last", i), "1") })
	}
	all.Wait()
	close(results)
	won := 0
	for res := range results {
		if res.Error == nil {
			won++
			continue
		}
		code(t, res, surfaces.CodeSessionLimit)
		if !strings.Contains(*res.Suggestion, "s1") {
			t.Fatalf("the suggestion does not name the least recently used: %s", *res.Suggestion)
		}
	}
	if won != 1 {
		t.Fatalf("%d calls got the last place, want 1", won)
	}
	list := w.sessions(t)
	if len(list) != surfaces.MaxSessions+1 {
		t.Fatalf("got %d sessions, want %d", len(list), surfaces.MaxSessions+1)
	}
	// A read-only call of a missing session is told all existing ones, however many there are.
	res := code(t, w.read("nowhere", "1"), surfaces.CodeSessionNotFound)
	for _, s := range list {
		if s.SessionName != nil && !strings.Contains(*res.Suggestion, fmt.Sprintf("%q", *s.SessionName)) {
			t.Errorf("%s is not listed: %s", *s.SessionName, *res.Suggestion)
		}
	}
}

func TestConcurrentCallersOfOneNameShareASession(t *testing.T) {
	w := fresh(t)
	var all sync.WaitGroup
	results := make(chan surfaces.Result, 10)
	for range cap(results) {
		all.Go(func() { results <- w.keep("shared", "n = globals().get('n', 0) + 1\nn") })
	}
	all.Wait()
	close(results)
	created, seen := 0, map[string]bool{}
	for res := range results {
		ok(t, res)
		if res.SessionCreated {
			created++
		}
		seen[string(res.Result)] = true
	}
	if created != 1 || len(seen) != cap(results) || len(w.sessions(t)) != 1 {
		t.Fatalf("%d created, values %v, want one session and a value for each call", created, seen)
	}
}

func TestLanguagesHaveSeparateSessions(t *testing.T) {
	w := fresh(t)
	w.needs(t, "bash")
	ok(t, w.exec(args{"code": "x = 1", "state_mode": "stateful", "session_id": 5}))
	res := ok(t, w.exec(args{"code": "x=2; echo $x", "language": "bash", "state_mode": "stateful", "session_id": 5}))
	if res.Stdout != "2\n" || !res.SessionCreated {
		t.Fatalf("got %s, want Stdout \"2\\n\", SessionCreated", show(res))
	}
	value(t, w.exec(args{"code": "x", "state_mode": "read_only", "session_id": 5}), "1")
}

func TestActorsHaveSeparateSessions(t *testing.T) {
	w, other := fresh(t), fresh(t)
	ok(t, w.keep("s", "x = 1\nopen('mine', 'w').write('secret')"))
	code(t, other.read("s", "x"), surfaces.CodeSessionNotFound)
	mine := workspace(t, w)
	value(t, other.once(fmt.Sprintf("import os; [os.path.exists('mine'), os.path.exists(%q)]", mine+"/mine")), "[false,false]")
	pid := strings.TrimSpace(string(ok(t, w.keep("s", "import os; os.getpid()")).Result))
	_ = other.once("import os\nfor p in range(2, 5000):\n  try: os.kill(p, 9)\n  except OSError: pass")
	value(t, w.keep("s", "[x, os.getpid()]"), "[1,"+pid+"]")
}

func TestInspect(t *testing.T) {
	w := fresh(t)
	ok(t, w.keep("s", `
import math
n = 7
text = "x" * 100_000
big = list(range(10**6))
class Slow:
    def __repr__(self):
        import time; time.sleep(1000)
class Bad:
    def __repr__(self): raise ValueError("no")
slow, bad = Slow(), Bad()
deep = []
for _ in range(100_000): deep = [deep]
def f(a, b=2): "Adds."
`))
	for _, detail := range []string{"summary", "names", "full"} {
		var out struct {
			Session map[string]any `json:"session"`
			State   struct {
				Variables []map[string]any `json:"variables"`
				Functions []map[string]any `json:"functions"`
				Modules   []string         `json:"modules"`
			} `json:"state"`
		}
		if status := w.post("/v1/tools/inspect_state", args{"session_name": "s", "detail": detail}, &out); status != 200 {
			t.Fatalf("%s: status %d, want 200: %+v", detail, status, out)
		}
		names := map[string]bool{}
		for _, v := range out.State.Variables {
			names[v["name"].(string)] = true
			if s, ok := v["summary"].(string); ok && len(s) > 5000 {
				t.Errorf("the summary of %v has %d bytes", v["name"], len(s))
			}
		}
		for _, n := range []string{"n", "text", "big", "slow", "bad", "deep"} {
			if !names[n] {
				t.Errorf("%s: %s is missing in %v", detail, n, names)
			}
		}
		if len(out.State.Modules) == 0 || out.Session["session_name"] != "s" {
			t.Errorf("%s: got %+v, want the modules of session s", detail, out)
		}
	}
	value(t, w.keep("s", "n"), "7")
	// Without a selector it is the default session's namespace.
	var out map[string]any
	if status := w.post("/v1/tools/inspect_state", args{}, &out); status != 200 {
		t.Fatalf("status %d, want 200: %v", status, out)
	}
}

func TestASessionsSummaryCountsItsCalls(t *testing.T) {
	w := fresh(t)
	for _, want := range []string{", 1 call", ", 2 calls"} {
		ok(t, w.keep("s", "1"))
		if list := w.sessions(t); len(list) != 1 || !strings.HasSuffix(list[0].Summary, want) {
			t.Errorf("%+v, want one whose summary ends in %q", list, want)
		}
	}
}
