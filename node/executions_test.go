package node_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

func TestListingCallsWithALimit(t *testing.T) {
	w := fresh(t)
	for range 3 {
		ok(t, w.once("1"))
	}
	var list struct {
		Executions []map[string]any `json:"executions"`
	}
	for query, n := range map[string]int{"": 3, "?limit=2": 2, "?limit=0": 0, "?limit=100": 3} {
		if w.get("/v1/executions"+query, &list); len(list.Executions) != n {
			t.Errorf("%q: got %d calls, want %d", query, len(list.Executions), n)
		}
	}
	var said surfaces.Result
	if status := w.get("/v1/executions?limit=abc", &said); status != 422 || !strings.Contains(*said.Error, "abc") {
		t.Errorf("status %d: %s, want 422 and a message with %q", status, show(said), "abc")
	}
}

// Pages of a list join without a gap or an overlap, also while calls are made and however many
// have one status.
func TestListingCallsByPages(t *testing.T) {
	w := fresh(t)
	want := []string{}
	for i := range 7 {
		r := w.once([]string{"1", "1/0"}[i%2])
		if i%2 == 0 {
			want = slices.Insert(want, 0, r.CallID)
		}
	}
	var got []string
	for query := "limit=2&status=done"; ; query = "limit=2&status=done&before=" + got[len(got)-1] {
		var page gateway.ExecutionList
		if w.get("/v1/executions?"+query, &page); len(page.Executions) == 0 {
			break
		}
		for _, c := range page.Executions {
			got = append(got, c.CallID)
		}
		ok(t, w.once("2"))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the pages are %v, want %v", got, want)
	}
	var said surfaces.Result
	if status := w.get("/v1/executions?before=yesterday", &said); status != 422 || !strings.Contains(*said.Error, "yesterday") {
		t.Errorf("status %d: %s, want 422 and a message with %q", status, show(said), "yesterday")
	}
}

// The calls of an actor that has ended are not the calls of the next one of its name.
func TestCallsOfAnEndedActorAreNotTheNextOnes(t *testing.T) {
	all := mesh(t, 2)
	w, far := all[0], all[1]
	first := w.newActor(t, "returning")
	before := ok(t, first.once("'the ended actor'"))
	if got := first.at(far).list(t); len(got) != 1 || got[0] != before.CallID {
		t.Fatalf("it had the calls %v, want its own %s", got, before.CallID)
	}
	var ended gateway.ActorInfo
	if status, said := w.ask(http.MethodDelete, "/v1/actors/returning", nil, &ended); status != http.StatusOK {
		t.Fatalf("status %d, want 200: %s", status, show(said))
	}
	second := w.newActor(t, "returning")
	for name, at := range map[string]*world{"the same node": second, "another node": second.at(far)} {
		if got := at.list(t); len(got) != 0 {
			t.Errorf("at %s it has the calls %v", name, got)
		}
		for _, path := range []string{"", "/primitives", "?from=0"} {
			if status := at.get("/v1/executions/"+before.CallID+path, &args{}); status != http.StatusNotFound {
				t.Errorf("at %s GET %s: status %d, want 404", name, path, status)
			}
		}
	}
	after := ok(t, second.once("1"))
	if got := second.at(far).list(t); len(got) != 1 || got[0] != after.CallID {
		t.Errorf("it has the calls %v, want its own %s", got, after.CallID)
	}
}

// at returns the same actor at another node.
func (w *world) at(other *world) *world {
	moved := *w
	moved.url = other.url
	return &moved
}

// list returns the ids of the actor's calls.
func (w *world) list(t testing.TB) (ids []string) {
	t.Helper()
	var calls gateway.ExecutionList
	if status := w.get("/v1/executions", &calls); status != http.StatusOK {
		t.Fatalf("status %d, want 200", status)
	}
	for _, c := range calls.Executions {
		ids = append(ids, c.CallID)
	}
	return ids
}

func TestListingCallsByStatus(t *testing.T) {
	w := fresh(t)
	running := w.running(t, "s", "import time\ntime.sleep(600)")
	ok(t, w.once("1"))
	code(t, w.once("1/0"), surfaces.CodeException)
	for status, n := range map[string]int{"running": 1, "done": 1, "failed": 1, "refused": 0} {
		var list gateway.ExecutionList
		if w.get("/v1/executions?status="+status, &list); len(list.Executions) != n {
			t.Errorf("%s: got %d calls, want %d", status, len(list.Executions), n)
		}
		for _, c := range list.Executions {
			if string(c.Status) != status || status == "running" && c.CallID != running {
				t.Errorf("got %+v, want status %s", c, status)
			}
		}
	}
	var said surfaces.Result
	if status := w.get("/v1/executions?status=runing", &said); status != 422 || !strings.Contains(*said.Error, "runing") {
		t.Errorf("status %d: %s, want 422 and a message with %q", status, show(said), "runing")
	}
	w.steer(t, running, "stop", nil)
	w.ended(t, running)
}

// Every client is told which actor it is, not only operators.
func TestStatusNamesTheActor(t *testing.T) {
	w := start(t, t.TempDir())
	var mine gateway.StatusInfo
	w.newActor(t, "somebody").get("/v1/status", &mine)
	if mine.Actor != "somebody" || mine.Operator {
		t.Errorf("an agent is %q, operator: %v", mine.Actor, mine.Operator)
	}
	if w.get("/v1/status", &mine); mine.Actor != "default" || !mine.Operator {
		t.Errorf("an operator is %q, operator: %v", mine.Actor, mine.Operator)
	}
	eventually(t, "the node has told the mesh what it holds", func() bool {
		var list gateway.NodeList
		w.get("/v1/nodes", &list)
		return len(list.Nodes) == 1 && list.Nodes[0].MemoryBytes > 0 && !list.Nodes[0].MemoryShort
	})
}

func TestAnotherActorCannotSeeTheCall(t *testing.T) {
	w, other := fresh(t), fresh(t)
	res := ok(t, w.once("1"))
	var out map[string]any
	if status := other.get("/v1/executions/"+res.CallID, &out); status != 404 {
		t.Fatalf("status %d, want 404: %v", status, out)
	}
}

func TestIdempotencyKeys(t *testing.T) {
	w := fresh(t)
	a := args{"code": "open('runs', 'a').write('.')\nprint('ran')\n7", "idempotency_key": "k"}
	first := ok(t, w.exec(a))
	for range 3 {
		again := ok(t, w.exec(a))
		if again.CallID != first.CallID || string(again.Result) != "7" || again.Stdout != "ran\n" {
			t.Fatalf("got %s, want the result of call %s", show(again), first.CallID)
		}
	}
	for _, more := range []args{{"timeout_s": 120}, {"thought": "again"}, {"background": false, "state_mode": "stateless"}} {
		if again := ok(t, w.exec(a.with(more))); again.CallID != first.CallID {
			t.Errorf("%v: got %s, want the result of call %s", more, show(again), first.CallID)
		}
	}
	value(t, w.once("len(open('runs').read())"), "1")
	var res surfaces.Result
	if status := w.post("/v1/tools/execute_code", a.with(args{"language": "python", "code": "8"}), &res); status != 409 {
		t.Fatalf("status %d, want 409: %s", status, show(res))
	}
}
