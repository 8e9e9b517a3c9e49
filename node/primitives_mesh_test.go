package node_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

// The caller's node, the owner of the session and the node that receives the answers are three
// different ones.
func TestPrimitivesThroughAMesh(t *testing.T) {
	all := mesh(t, 3)
	own, others := owner(t, all, ok(t, all[0].keep("s", "x = 1")))
	away, third := others[0], others[1]
	c := away.calls(t, args{"code": "import asyncio\nsum(await asyncio.gather(*(primitives.math.plus(a=i, b=0) for i in range(300))))", "state_mode": "stateful", "session_name": "s"}, nil)
	var open []event
	for len(open) < 300 {
		open = append(open, c.next(surfaces.EventPrimitive))
	}
	for i, e := range open {
		if seq := fmt.Sprint(e.data["seq"]); seq != fmt.Sprint(i+1) {
			t.Fatalf("event %d is of %s", i, seq)
		}
	}
	for _, e := range open {
		if status, said := third.answerPrimitive(c.id, fmt.Sprint(e.data["seq"]), plus(e.data["args"].(map[string]any))); status != 200 {
			t.Fatalf("status %d, want 200: %v", status, said)
		}
	}
	if status, _ := third.answerPrimitive(c.id, "301", args{"result": 1}); status != 404 {
		t.Errorf("an answer to nothing: status %d, want 404", status)
	}
	if status, _ := third.answerPrimitive(c.id, "1", args{"result": "other"}); status != 409 {
		t.Errorf("another answer: status %d, want 409", status)
	}
	res := c.result()
	value(t, res, "44850")
	if res.Usage.Primitives != 300 || third.primitiveUses(c.id) != away.primitiveUses(c.id) || strings.Count(third.primitiveUses(c.id), "ok") != 300 {
		t.Errorf("usage %+v, recorded %.100s, want 300 uses with outcome ok, the same from each node", res.Usage, third.primitiveUses(c.id))
	}

	t.Run("the owner goes away", func(t *testing.T) {
		loseFirstAttempt(t, away, 120, own.stop)
	})
}
