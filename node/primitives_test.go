package node_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// caller streams a call and answers the primitives that its code asks for.
type caller struct {
	t      testing.TB
	w      *world
	events <-chan event
	id     string
	asked  []string // "SEQ NAME", in the order in which they were told
	answer map[string]func(given map[string]any) args
	named  map[string]int // how many events of each name came
}

// calls starts a call whose code may use what answer has.
func (w *world) calls(t testing.TB, a args, answer map[string]func(map[string]any) args) *caller {
	t.Helper()
	c := &caller{t: t, w: w, events: w.stream(t.Context(), a), answer: answer, named: map[string]int{}}
	c.id = c.next("started").data["call_id"].(string)
	return c
}

// next answers what comes up to an event of a name, and gives that. A primitive that
// the caller has no answer for is such an event too.
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
					c.t.Errorf("the answer to %s %s: status %d, %v", seq, primitive, status, said["error"])
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
	return c.w.answers(c.id, seq, body)
}

func (w *world) answers(id, seq string, body args) (int, map[string]any) {
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

// uses writes the call's record of primitives in short.
func (w *world) uses(id string) string {
	w.t.Helper()
	var list gateway.PrimitiveList
	if status := w.get("/v1/executions/"+id+"/primitives", &list); status != 200 {
		w.t.Errorf("the uses of %s: status %d", id, status)
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

// plus and the like are what the callers of these tests offer.
func plus(given map[string]any) args {
	return args{"result": given["a"].(float64) + given["b"].(float64)}
}

func fails(map[string]any) args {
	return args{"error": args{"type": "quota", "message": "no more today"}}
}

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
		t.Errorf("usage %+v", res.Usage)
	}
	want := []string{"1 math.plus", "2 math.plus", "3 math.plus", "4 math.plus", "5 math.plus", "6 bank.pay"}
	if !slices.Equal(c.asked, want) {
		t.Errorf("asked for %q", c.asked)
	}
	if got := w.uses(c.id); got != "1 math.plus ok; 2 math.plus ok; 3 math.plus ok; 4 math.plus ok; 5 math.plus ok; 6 bank.pay quota" {
		t.Errorf("recorded %s", got)
	}
}

func TestAThousandPrimitivesAtOnce(t *testing.T) {
	w := fresh(t)
	c := w.calls(t, args{"code": "import asyncio\nsum(await asyncio.gather(*(primitives.math.plus(a=i, b=0) for i in range(1000))))"}, nil)
	// All are asked for before the first is answered; answered in any order, by many.
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
					t.Errorf("status %d: %v", status, said["error"])
				}
			}
		})
	}
	wg.Wait()
	res := c.result()
	value(t, res, "499500")
	if res.Usage.Primitives != 1000 {
		t.Errorf("usage %+v", res.Usage)
	}
}

// told gives the type of error that code which uses a primitive gets.
const tells = `
async def told(what):
    try:
        return await what
    except PrimitiveError as e:
        return e.type
`

func TestWhatCodeMayUseOfItsCaller(t *testing.T) {
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

// A caller that does not hear its call's events is not waited for; one that may come
// to do so is.
func TestCallersThatDoNotListen(t *testing.T) {
	w := fresh(t)
	use := tells + `await told(primitives.math.plus(a=1, b=2))`
	res := w.once(use)
	value(t, res, `"unknown"`)
	if res.Usage.Primitives != 0 || w.uses(res.CallID) != "1 math.plus unknown" {
		t.Errorf("usage %+v, recorded %s", res.Usage, w.uses(res.CallID))
	}
	value(t, w.exec(args{"code": use, "primitives": []string{"math.plus"}}), `"unknown"`)

	res = w.exec(args{"code": use, "background": true})
	eventually(t, "the code asks", func() bool { return w.uses(res.CallID) == "1 math.plus running" })
	if status, said := w.answers(res.CallID, "1", args{"result": 7}); status != 200 || said["delivered"] != true {
		t.Fatalf("status %d: %v", status, said)
	}
	value(t, w.ended(t, res.CallID), "7")
}

func TestAnswersThatNobodyWaitsFor(t *testing.T) {
	w := fresh(t)
	c := w.calls(t, args{"code": "await primitives.math.plus(a=1, b=2)\nawait primitives.math.wait()"}, nil)
	c.next(surfaces.EventPrimitive)
	expect := func(seq string, body args, want int) {
		t.Helper()
		if status, said := c.send(seq, body); status != want || want != 200 && (said["code"] != "invalid_argument" || said["error"] == "") {
			t.Errorf("%v for %s: status %d, %v", body, seq, status, said["error"])
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
	expect("2", args{"result": 3}, 409) // not any more
	if got := w.uses(c.id); got != "1 math.plus ok; 2 math.wait ended" {
		t.Errorf("recorded %s", got)
	}
	other := w.newActorOf(t)
	if status, _ := other.answers(c.id, "1", args{"result": 3}); status != 404 {
		t.Errorf("another actor's answer: status %d", status)
	}
	if status := other.get("/v1/executions/"+c.id+"/primitives", &map[string]any{}); status != 404 {
		t.Errorf("another actor's look: status %d", status)
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

// A caller that lost its connection is told again what still waits for it.
func TestACallerThatComesBack(t *testing.T) {
	w := fresh(t)
	ctx, leave := context.WithCancel(t.Context())
	events := w.stream(ctx, args{"code": "a = await primitives.math.plus(a=1, b=2)\nprint('half')\nb = await primitives.math.plus(a=3, b=4)\n[a, b]"})
	id := await(t, events, "started").data["call_id"].(string)
	await(t, events, surfaces.EventPrimitive)
	w.answers(id, "1", args{"result": 3})
	await(t, events, "stdout")
	eventually(t, "the second is asked for", func() bool { return strings.HasSuffix(w.uses(id), "2 math.plus running") })
	leave()
	req, err := http.NewRequest("GET", w.url+"/v1/executions/"+id+"?from=5", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.token)
	c := &caller{t: t, w: w, id: id, events: w.events(req), named: map[string]int{}}
	for e := c.next(surfaces.EventPrimitive); e.data["seq"] != 2.0; e = c.next(surfaces.EventPrimitive) {
	}
	if status, said := c.send("2", args{"result": 7}); status != 200 {
		t.Fatalf("status %d: %v", status, said)
	}
	value(t, c.result(), "[3,7]")
	if c.named["stdout"] != 0 {
		t.Error("output was told twice")
	}
}

// What is answered while the code is paused reaches it when it goes on.
func TestAnAnswerToPausedCode(t *testing.T) {
	w := fresh(t)
	c := w.calls(t, args{"code": "await primitives.math.plus(a=1, b=2)"}, nil)
	c.next(surfaces.EventPrimitive)
	w.steer(t, c.id, "pause", nil)
	if status, said := c.send("1", args{"result": 3}); status != 200 {
		t.Fatalf("status %d: %v", status, said)
	}
	w.steer(t, c.id, "resume", nil)
	value(t, c.result(), "3")
}

// A question about a running call reads only, and has nobody to answer it.
func TestPrimitivesOfAQuestion(t *testing.T) {
	w := fresh(t)
	c := w.calls(t, args{"code": "await primitives.math.wait()", "state_mode": "stateful", "session_name": "s"}, nil)
	c.next(surfaces.EventPrimitive)
	got := w.steer(t, c.id, "ask", args{"code": tells + "await told(primitives.math.wait())"})
	if result, _ := got["result"].(map[string]any); result == nil || result["result"] != "unknown" {
		t.Errorf("got %v", got)
	}
	c.send("1", args{"result": nil})
	ok(t, c.result())
}

// retried is code that uses primitives in its session, and the caller's part in it.
const retried = `
import asyncio
first = await primitives.math.plus(a=1, b=2)
waits = asyncio.ensure_future(primitives.math.wait(i=1))
second = await primitives.math.plus(b=2, a=first)
print("asked")
[first, second, await waits, await primitives.math.plus(a=10, b=1)]`

// lose runs that code, has its session's process or node lost by kill when the third
// use is under way, and answers that use when the second attempt has asked for
// everything again.
func lose(t *testing.T, w *world, timeout int, kill func()) (*caller, surfaces.Result) {
	t.Helper()
	performed := 0
	c := w.calls(t, args{"code": retried, "state_mode": "stateful", "session_name": "s", "timeout_s": timeout}, map[string]func(map[string]any) args{
		"math.plus": func(given map[string]any) args { performed++; return plus(given) },
	})
	c.next("stdout")
	kill()
	c.next("stdout") // the second attempt was given what the first was given
	if performed != 2 {
		t.Errorf("performed %d before the loss and after it", performed)
	}
	if status, said := c.send("3", args{"result": "waited"}); status != 200 {
		t.Fatalf("status %d: %v", status, said)
	}
	res := c.result()
	value(t, res, `[3,5,"waited",11]`)
	if res.Attempts != 2 || res.StateLost.Loss == nil || performed != 3 || res.Usage.Primitives != 4 {
		t.Errorf("attempts %d, performed %d, usage %+v", res.Attempts, performed, res.Usage)
	}
	want := []string{"1 math.plus", "2 math.plus", "3 math.wait", "4 math.plus"}
	if !slices.Equal(c.asked, want) {
		t.Errorf("the caller was asked for %q", c.asked)
	}
	if got := w.uses(c.id); got != "1 math.plus ok replayed; 2 math.plus ok replayed; 3 math.wait ok replayed; 4 math.plus ok" {
		t.Errorf("recorded %s", got)
	}
	return c, res
}

// kill -9 under a call that has used primitives: the second attempt is given what the
// first one was given, and joins what is still under way.
func TestPrimitivesOfACallThatIsTriedAgain(t *testing.T) {
	w := fresh(t)
	pid := string(ok(t, w.keep("s", "import os; os.getpid()")).Result)
	lose(t, w, 60, func() { ok(t, w.once("import os; os.kill("+pid+", 9)")) })
}

// A second attempt that goes another way is asked for what differs, and an answer to
// what the first asked for is not taken for one to that.
func TestASecondAttemptThatGoesAnotherWay(t *testing.T) {
	w := fresh(t)
	pid := string(ok(t, w.keep("s", "import os; os.getpid()")).Result)
	c := w.calls(t, args{"code": "import os\nawait primitives.math.wait(pid=os.getpid())", "state_mode": "stateful", "session_name": "s"}, nil)
	c.next(surfaces.EventPrimitive)
	ok(t, w.once("import os; os.kill("+pid+", 9)"))
	again := fmt.Sprintf("%.0f", c.next(surfaces.EventPrimitive).data["seq"])
	if again == "1" {
		t.Fatal("two uses under one sequence")
	}
	c.send("1", args{"result": "old"})
	c.send(again, args{"result": "new"})
	value(t, c.result(), `"new"`)
}

// What a call may use ends with it, also for a thread that it has left behind.
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
		t.Errorf("asked for %q", c.asked)
	}
}

// The caller's node, the owner of the session and the node that the answers come in at
// are three different ones.
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
		if status, said := third.answers(c.id, fmt.Sprint(e.data["seq"]), plus(e.data["args"].(map[string]any))); status != 200 {
			t.Fatalf("status %d: %v", status, said)
		}
	}
	if status, _ := third.answers(c.id, "301", args{"result": 1}); status != 404 {
		t.Errorf("an answer to nothing: status %d", status)
	}
	if status, _ := third.answers(c.id, "1", args{"result": "other"}); status != 409 {
		t.Errorf("another answer: status %d", status)
	}
	res := c.result()
	value(t, res, "44850")
	if res.Usage.Primitives != 300 || third.uses(c.id) != away.uses(c.id) || strings.Count(third.uses(c.id), "ok") != 300 {
		t.Errorf("usage %+v, recorded %.100s", res.Usage, third.uses(c.id))
	}

	t.Run("the owner goes away", func(t *testing.T) {
		lose(t, away, 120, own.stop)
	})
}
