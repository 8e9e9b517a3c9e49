package node_test

import (
	"net/http"
	"testing"

	"github.com/locusrun/locus/node/gateway"
)

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
