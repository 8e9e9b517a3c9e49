package node_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

func TestPrimitivesOfTheCaller(t *testing.T) {
	w := fresh(t)
	c := w.calls(t, args{"code": `
import asyncio, threading
got = await asyncio.gather(*(primitives.math.plus(a=i, b=1) for i in range(3)))
got.append(primitives.math.plus.sync(a=10, b=1))
t = threading.Thread(target=lambda: got.append(primitives.math.plus.sync(a=20, b=1)))
t.start(); t.join()
try:
    await primitives.bank.pay()
except PrimitiveError as e:
    got.append([e.type, str(e)])
got`}, map[string]func(map[string]any) args{"math.plus": plus, "bank.pay": fails})
	res := c.result()
	value(t, res, `[1,2,3,11,21,["quota","no more today"]]`)
	if res.Usage == nil || res.Usage.Primitives != 6 {
		t.Errorf("usage %+v, want 6 primitives", res.Usage)
	}
	want := []string{"1 math.plus", "2 math.plus", "3 math.plus", "4 math.plus", "5 math.plus", "6 bank.pay"}
	if !slices.Equal(c.asked, want) {
		t.Errorf("asked for %q, want %q", c.asked, want)
	}
	if got, want := w.primitiveUses(c.id), "1 math.plus ok; 2 math.plus ok; 3 math.plus ok; 4 math.plus ok; 5 math.plus ok; 6 bank.pay quota"; got != want {
		t.Errorf("recorded %s, want %s", got, want)
	}
}

func TestAThousandPrimitivesAtOnce(t *testing.T) {
	w := fresh(t)
	c := w.calls(t, args{"code": "import asyncio\nsum(await asyncio.gather(*(primitives.math.plus(a=i, b=0) for i in range(1000))))"}, nil)
	// All are requested before the first is answered. They are answered concurrently, in another
	// order.
	var open []event
	for len(open) < 1000 {
		open = append(open, c.next(surfaces.EventPrimitive))
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := len(open) - 1 - i; j >= 0; j -= 8 {
				e := open[j]
				if status, said := c.send(fmt.Sprint(e.data["seq"]), plus(e.data["args"].(map[string]any))); status != 200 {
					t.Errorf("status %d, want 200: %v", status, said["error"])
				}
			}
		})
	}
	wg.Wait()
	res := c.result()
	value(t, res, "499500")
	if res.Usage.Primitives != 1000 {
		t.Errorf("usage %+v, want 1000 primitives", res.Usage)
	}
}

func TestWhichPrimitivesCodeMayUse(t *testing.T) {
	w := fresh(t)
	use := tells + `[await told(primitives.math.plus(a=1,b=2)),await told(primitives.bank.pay())]`
	offers := []any{"bank.pay", args{"name": "math.plus", "description": "adds", "schema": args{"type": "object", "properties": args{"a": args{"type": "number"}}}, "read_only": true}}
	all := map[string]func(map[string]any) args{"math.plus": plus, "bank.pay": fails}
	for name, row := range map[string]struct {
		args args
		want string
	}{
		"anything":         {args{}, `[3,"quota"]`},
		"what it offers":   {args{"primitives": offers}, `[3,"quota"]`},
		"less":             {args{"primitives": []string{"bank.pay"}}, `["forbidden","quota"]`},
		"nothing":          {args{"primitives": []string{}}, `["unknown","unknown"]`},
		"one use":          {args{"primitives_limit": 1}, `[3,"primitives_limit"]`},
		"no use":           {args{"primitives_limit": 0}, `["primitives_limit","primitives_limit"]`},
		"in a session":     {args{"state_mode": "stateful", "session_name": "s"}, `[3,"quota"]`},
		"read only":        {args{"state_mode": "read_only", "session_id": 0, "primitives": offers}, `[3,"read_only"]`},
		"read only, plain": {args{"state_mode": "read_only", "session_id": 0}, `["read_only","read_only"]`},
	} {
		t.Run(name, func(t *testing.T) {
			value(t, w.calls(t, args{"code": use}.with(row.args), all).result(), row.want)
		})
	}
	t.Run("described", func(t *testing.T) {
		c := w.calls(t, args{"primitives": offers, "code": "[dir(primitives), dir(primitives.math), 'adds' in primitives.math.plus.__doc__]"}, nil)
		value(t, c.result(), `[["bank","math"],["plus"],true]`)
	})
}

// Code does not wait for a caller that cannot receive its call's events. It waits for one that
// may still begin to.
func TestCallersThatDoNotListen(t *testing.T) {
	w := fresh(t)
	use := tells + `await told(primitives.math.plus(a=1, b=2))`
	res := w.once(use)
	value(t, res, `"unknown"`)
	if res.Usage.Primitives != 0 || w.primitiveUses(res.CallID) != "1 math.plus unknown" {
		t.Errorf("usage %+v, recorded %s, want no primitive, and the use as unknown", res.Usage, w.primitiveUses(res.CallID))
	}
	value(t, w.exec(args{"code": use, "primitives": []string{"math.plus"}}), `"unknown"`)

	res = w.exec(args{"code": use, "background": true})
	eventually(t, "the code asks", func() bool { return w.primitiveUses(res.CallID) == "1 math.plus running" })
	if status, said := w.answerPrimitive(res.CallID, "1", args{"result": 7}); status != 200 || said["delivered"] != true {
		t.Fatalf("status %d, want 200: %v", status, said)
	}
	value(t, w.ended(t, res.CallID), "7")
}

func TestUnexpectedAnswersAreRefused(t *testing.T) {
	w := fresh(t)
	c := w.calls(t, args{"code": "await primitives.math.plus(a=1, b=2)\nawait primitives.math.wait()"}, nil)
	c.next(surfaces.EventPrimitive)
	expect := func(seq string, body args, want int) {
		t.Helper()
		if status, said := c.send(seq, body); status != want || want != 200 && (said["code"] != "invalid_argument" || said["error"] == "") {
			t.Errorf("%v for %s: status %d, want %d: %v", body, seq, status, want, said["error"])
		}
	}
	expect("2", args{"result": 3}, 404) // not yet
	expect("x", args{"result": 3}, 404)
	expect("1", args{}, 422)
	expect("1", args{"result": 3, "error": "x"}, 422)
	expect("1", args{"result": 3}, 200)
	expect("1", args{"result": 3}, 200)
	expect("1", args{"result": 4}, 409)
	c.next(surfaces.EventPrimitive)
	w.steer(t, c.id, "stop", nil)
	code(t, c.result(), surfaces.CodeStopped)
	expect("2", args{"result": 3}, 409) // no longer
	if got, want := w.primitiveUses(c.id), "1 math.plus ok; 2 math.wait ended"; got != want {
		t.Errorf("recorded %s, want %s", got, want)
	}
	other := w.newActorOf(t)
	if status, _ := other.answerPrimitive(c.id, "1", args{"result": 3}); status != 404 {
		t.Errorf("another actor's answer: status %d, want 404", status)
	}
	if status := other.get("/v1/executions/"+c.id+"/primitives", &map[string]any{}); status != 404 {
		t.Errorf("another actor's look: status %d, want 404", status)
	}
}

// newActorOf makes another actor of the same node.
func (w *world) newActorOf(t testing.TB) *world {
	t.Helper()
	other := fresh(t)
	if other.url != w.url {
		t.Fatal("another node")
	}
	return other
}

// A caller that lost its connection is sent the requests again that still wait for it.
func TestACallerThatReconnects(t *testing.T) {
	w := fresh(t)
	ctx, leave := context.WithCancel(t.Context())
	events := w.stream(ctx, args{"code": "a = await primitives.math.plus(a=1, b=2)\nprint('half')\nb = await primitives.math.plus(a=3, b=4)\n[a, b]"})
	id := await(t, events, "started").data["call_id"].(string)
	await(t, events, surfaces.EventPrimitive)
	w.answerPrimitive(id, "1", args{"result": 3})
	await(t, events, "stdout")
	eventually(t, "the second is asked for", func() bool { return strings.HasSuffix(w.primitiveUses(id), "2 math.plus running") })
	leave()
	req := w.newRequest(t.Context(), "GET", "/v1/executions/"+id+"?from=5", nil)
	c := &caller{t: t, w: w, id: id, events: w.events(req), named: map[string]int{}}
	for e := c.next(surfaces.EventPrimitive); e.data["seq"] != 2.0; e = c.next(surfaces.EventPrimitive) {
	}
	if status, said := c.send("2", args{"result": 7}); status != 200 {
		t.Fatalf("status %d, want 200: %v", status, said)
	}
	value(t, c.result(), "[3,7]")
	if c.named["stdout"] != 0 {
		t.Error("output was told twice")
	}
}

// An answer that arrives while the code is paused reaches it when it is resumed.
func TestAnAnswerToPausedCode(t *testing.T) {
	w := fresh(t)
	c := w.calls(t, args{"code": "await primitives.math.plus(a=1, b=2)"}, nil)
	c.next(surfaces.EventPrimitive)
	w.steer(t, c.id, "pause", nil)
	if status, said := c.send("1", args{"result": 3}); status != 200 {
		t.Fatalf("status %d, want 200: %v", status, said)
	}
	w.steer(t, c.id, "resume", nil)
	value(t, c.result(), "3")
}

// The code of a question about a running call is read-only and has no caller that could answer
// its primitives.
func TestPrimitivesOfAQuestion(t *testing.T) {
	w := fresh(t)
	c := w.calls(t, args{"code": "await primitives.math.wait()", "state_mode": "stateful", "session_name": "s"}, nil)
	c.next(surfaces.EventPrimitive)
	got := w.steer(t, c.id, "ask", args{"code": tells + "await told(primitives.math.wait())"})
	if result, _ := got["result"].(map[string]any); result == nil || result["result"] != "unknown" {
		t.Errorf("got %v, want the result \"unknown\"", got)
	}
	c.send("1", args{"result": nil})
	ok(t, c.result())
}

// A call's right to use primitives ends with it, also for a thread that it left behind.
func TestPrimitivesEndWithTheirCall(t *testing.T) {
	w := fresh(t)
	c := w.calls(t, args{"state_mode": "stateful", "session_name": "s", "code": `
import threading
go, got = threading.Event(), []
def later():
    go.wait()
    try:
        got.append(primitives.math.plus.sync(a=1, b=2))
    except PrimitiveError as e:
        got.append(e.type)
t = threading.Thread(target=later); t.start()`}, nil)
	ok(t, c.result())
	c = w.calls(t, args{"state_mode": "stateful", "session_name": "s", "code": "go.set(); t.join(); got"}, nil)
	value(t, c.result(), `["ended"]`)
	if len(c.asked) != 0 {
		t.Errorf("asked for %q, want nothing", c.asked)
	}
}
