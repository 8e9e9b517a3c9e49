package node_test

import (
	"strings"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

func TestInterject(t *testing.T) {
	w := fresh(t)
	id := w.running(t, "s", "import asyncio\nfirst = await interjections.get()\nwhile not (rest := interjections.pending()): await asyncio.sleep(0.01)\n[first, rest]")
	w.steer(t, id, "interject", args{"message": "hurry"})
	w.steer(t, id, "interject", args{"message": "up"})
	res := ok(t, w.ended(t, id))
	if got := string(res.Result); got != `["hurry",["up"]]` && got != `["hurry", ["up"]]` {
		t.Fatalf(`got %s, want ["hurry",["up"]]`, got)
	}
}

// An answer without an id is for the only open question. An answer that fits no question is
// refused, not dropped.
func TestAnAnswerFindsItsQuestion(t *testing.T) {
	w := fresh(t)
	id := w.running(t, "s", `
import asyncio
a = await request_clarification("one?")
b, c = await asyncio.gather(request_clarification("two?"), request_clarification("three?"))
print("asked")
[a, b, c]`)
	answer := func(body args) (said surfaces.Result, status int) {
		status = w.post("/v1/executions/"+id+"/answer", body, &said)
		return said, status
	}
	events := w.follow(t, id)
	asked := func() string { t.Helper(); return await(t, events, "clarification").data["id"].(string) }
	first := asked()
	if res := w.result(id); res.Node == "" || len(res.Notice) != 1 || res.Notice[0] != (surfaces.Notice{Kind: "clarification", Text: first + ": one?"}) {
		t.Errorf("the result so far: %s", show(res))
	}
	if said, status := answer(args{"id": "none", "answer": "x"}); status != 422 || said.Suggestion == nil || !strings.Contains(*said.Suggestion, first) {
		t.Errorf("status %d: %s, want 422 and a message with %q", status, show(said), first)
	}
	if said, status := answer(args{"answer": "A"}); status != 200 {
		t.Fatalf("status %d, want 200: %s", status, show(said))
	}
	two, three := asked(), asked()
	if res := w.result(id); len(res.Notice) != 2 || strings.Contains(show(res), "one?") {
		t.Errorf("the result so far: %s", show(res))
	}
	if said, status := answer(args{"answer": "x"}); status != 422 || !strings.Contains(*said.Suggestion, two) {
		t.Errorf("status %d: %s, want 422 and a message with %q", status, show(said), two)
	}
	for question, text := range map[string]string{two: "B", three: "C"} {
		if said, status := answer(args{"id": question, "answer": text}); status != 200 {
			t.Fatalf("status %d, want 200: %s", status, show(said))
		}
	}
	res := w.ended(t, id)
	value(t, res, `["A","B","C"]`)
	if len(res.Notice) != 0 {
		t.Errorf("in the end: %s", show(res))
	}
	if said, status := answer(args{"answer": "late"}); status != 422 {
		t.Errorf("status %d, want 422: %s", status, show(said))
	}
}
