package node_test

import (
	"net/http"
	"testing"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// The result of a key outlives the record of its call. A node that is restarted has forgotten the
// call, and still gives the result to whoever repeats the key at another node.
func TestAKeyOfAForgottenCallHasItsResultAtEveryNode(t *testing.T) {
	a := start(t, t.TempDir(), quick)
	dir := t.TempDir()
	b := a.joined(dir, quick)
	b.token = a.token
	call := args{"code": "open('runs', 'a').write('.')\nprint('ran')\n7", "idempotency_key": "k"}
	first := ok(t, b.exec(call))
	b.stop()
	b = start(t, dir, quick)
	b.token = a.token
	for name, w := range map[string]*world{"another node": a, "its own node": b} {
		if again := w.exec(call); again.Code != nil || again.CallID != first.CallID || string(again.Result) != "7" || again.Stdout != "ran\n" {
			t.Errorf("%s answers %s, want the first result", name, show(again))
		}
	}
	if away := a.exec(call.with(args{"code": "2"})); away.Code == nil || *away.Code != surfaces.CodeInvalidArgument {
		t.Errorf("the key with another program: %s", show(away))
	}
	var streamed []string
	for ev := range a.stream(t.Context(), call) {
		streamed = append(streamed, ev.name)
	}
	if len(streamed) == 0 || streamed[len(streamed)-1] != "result" {
		t.Errorf("the stream has %v, want the result last", streamed)
	}
}

// The keys of an actor that has ended do not answer the next one of its name.
func TestAKeyOfAnEndedActorRunsForTheNextOfItsName(t *testing.T) {
	w := start(t, t.TempDir())
	call := args{"code": "1 + 1", "idempotency_key": "k"}
	first := w.newActor(t, "returning")
	before := ok(t, first.exec(call))
	var ended gateway.ActorInfo
	if status, said := w.ask(http.MethodDelete, "/v1/actors/returning", nil, &ended); status != http.StatusOK {
		t.Fatalf("status %d, want 200: %s", status, show(said))
	}
	second := w.newActor(t, "returning")
	if after := ok(t, second.exec(call)); after.CallID == before.CallID {
		t.Fatalf("the ended actor's call answered: %s", show(after))
	}
}
