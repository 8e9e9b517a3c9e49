package node_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// caller streams a call and answers the primitives that its code requests.
type caller struct {
	t      testing.TB
	w      *world
	events <-chan event
	id     string
	asked  []string // "SEQ NAME", in the order in which they were told
	answer map[string]func(given map[string]any) args
	named  map[string]int // how many events of each name came
}

// calls starts a call whose code may use the primitives in answer.
func (w *world) calls(t testing.TB, a args, answer map[string]func(map[string]any) args) *caller {
	t.Helper()
	c := &caller{t: t, w: w, events: w.stream(t.Context(), a), answer: answer, named: map[string]int{}}
	c.id = c.next("started").data["call_id"].(string)
	return c
}

// next answers requests until an event of a name, which it returns. A request that the caller
// has no answer for counts as an event too.
func (c *caller) next(name string) event {
	c.t.Helper()
	for {
		e := awaitAny(c.t, c.events)
		c.named[e.name]++
		if e.name == surfaces.EventPrimitive {
			seq, primitive := fmt.Sprint(e.data["seq"]), e.data["name"].(string)
			c.asked = append(c.asked, seq+" "+primitive)
			if do := c.answer[primitive]; do != nil {
				given, _ := e.data["args"].(map[string]any)
				if status, said := c.send(seq, do(given)); status != 200 {
					c.t.Errorf("the answer to %s %s: status %d, want 200, %v", seq, primitive, status, said["error"])
				}
				continue
			}
		}
		if e.name == name {
			return e
		}
		if e.name == "result" {
			c.t.Fatalf("the call ended before %s: %v", name, e.data)
		}
	}
}

func (c *caller) send(seq string, body args) (int, map[string]any) {
	c.t.Helper()
	return c.w.answerPrimitive(c.id, seq, body)
}

func (w *world) answerPrimitive(id, seq string, body args) (int, map[string]any) {
	w.t.Helper()
	var said map[string]any
	return w.post("/v1/executions/"+id+"/primitives/"+seq, body, &said), said
}

// result answers what comes up to the end, and gives the result.
func (c *caller) result() surfaces.Result {
	c.t.Helper()
	c.next("result")
	return c.w.result(c.id)
}

// primitiveUses returns the call's record of primitives in a short form.
func (w *world) primitiveUses(id string) string {
	w.t.Helper()
	var list gateway.PrimitiveList
	if status := w.get("/v1/executions/"+id+"/primitives", &list); status != 200 {
		w.t.Errorf("the uses of %s: status %d, want 200", id, status)
	}
	var all []string
	for _, u := range list.Primitives {
		if len(u.Digest) != 64 {
			w.t.Errorf("the digest of %d is %q", u.Seq, u.Digest)
		}
		word := fmt.Sprint(u.Seq, " ", u.Name, " ", u.Outcome)
		if u.Replayed {
			word += " replayed"
		}
		all = append(all, word)
	}
	return strings.Join(all, "; ")
}

// plus and fails are primitives of the caller.
func plus(given map[string]any) args {
	return args{"result": given["a"].(float64) + given["b"].(float64)}
}

func fails(map[string]any) args {
	return args{"error": args{"type": "quota", "message": "no more today"}}
}

// tells defines told, which returns the type of the error that a primitive raised.
const tells = `
async def told(what):
    try:
        return await what
    except PrimitiveError as e:
        return e.type
`
