package node_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// children returns the calls that a call's code has made, newest first.
func (w *world) children(id string) []gateway.CallSummary {
	w.t.Helper()
	var list gateway.ExecutionList
	w.get("/v1/executions", &list)
	return slices.DeleteFunc(list.Executions, func(s gateway.CallSummary) bool { return s.Parent != id })
}

// startInFunction starts a call and waits until it runs inside a function, which prints
// "inside". It returns both calls.
func (w *world) startInFunction(t *testing.T, code string) (id, child string) {
	t.Helper()
	id = w.running(t, "s", code)
	eventually(t, "the function runs", func() bool {
		for _, c := range w.children(id) {
			if strings.HasPrefix(w.result(c.CallID).Stdout, "inside\n") {
				child = c.CallID
			}
		}
		return child != ""
	})
	return id, child
}

func TestAFunctionsOutputIsItsOwn(t *testing.T) {
	w := fresh(t)
	w.put(args{"source": "import sys\ndef sf_prints():\n    print('out'); print('err', file=sys.stderr)\n    return 1"})
	res := w.once("print('mine'); await functions.sf_prints()")
	value(t, res, "1")
	stdout(t, res, "mine\n")
	list := w.children(res.CallID)
	if len(list) != 1 || list[0].Function != "sf_prints" || list[0].Status != surfaces.StatusDone {
		t.Fatalf("got %+v, want one call of sf_prints that is done", list)
	}
	if inner := w.result(list[0].CallID); inner.Stdout != "out\n" || inner.Stderr != "err\n" {
		t.Errorf("got %s, want out on stdout and err on stderr", show(inner))
	}
}

func TestSteeringReachesFunctions(t *testing.T) {
	w := fresh(t)
	w.put(args{"source": "def sf_ticks():\n    import time\n    print('inside', flush=True)\n    while True:\n        print('tick', flush=True)\n        time.sleep(0.001)"})
	w.put(args{"source": "async def sf_hears():\n    print('inside', flush=True)\n    return await interjections.get()"})
	w.put(args{"source": "def sf_calls():\n    print('inside', flush=True)\n    functions.sf_ticks.sync()"})

	t.Run("pause, resume and stop, also two deep", func(t *testing.T) {
		id, middle := w.startInFunction(t, "await functions.sf_calls()")
		eventually(t, "the inner one runs", func() bool {
			return len(w.children(middle)) == 1 && len(w.result(w.children(middle)[0].CallID).Stdout) > 100
		})
		inner := w.children(middle)[0].CallID
		size := func() int { return len(w.result(inner).Stdout) }
		w.steer(t, id, "pause", nil)
		before := standsStill(t, size)
		for _, one := range []string{middle, inner} {
			var list gateway.ExecutionList
			w.get("/v1/executions", &list)
			at := slices.IndexFunc(list.Executions, func(s gateway.CallSummary) bool { return s.CallID == one })
			if !list.Executions[at].Paused {
				t.Errorf("not paused: %+v", list.Executions[at])
			}
		}
		w.steer(t, id, "resume", nil)
		eventually(t, "output goes on", func() bool { return size() > before })
		w.steer(t, id, "stop", nil)
		for _, one := range []string{id, middle, inner} {
			code(t, w.ended(t, one), surfaces.CodeStopped)
		}
	})
	t.Run("interject", func(t *testing.T) {
		id, _ := w.startInFunction(t, "[await functions.sf_hears(), await interjections.get()]")
		w.steer(t, id, "interject", args{"message": "hurry"})
		value(t, w.ended(t, id), `["hurry","hurry"]`)
	})
	t.Run("stopping the function alone", func(t *testing.T) {
		id, child := w.startInFunction(t, "try:\n    await functions.sf_ticks()\nexcept PrimitiveError as e:\n    got = e.type\ngot")
		w.steer(t, child, "stop", nil)
		value(t, w.ended(t, id), `"stopped"`)
	})
	t.Run("code that ends does not leave its functions", func(t *testing.T) {
		id, child := w.startInFunction(t, "import asyncio\nt = asyncio.ensure_future(functions.sf_ticks())\nwhile not interjections.pending(): await asyncio.sleep(0.01)")
		w.steer(t, id, "interject", args{"message": "go"})
		ok(t, w.ended(t, id))
		code(t, w.ended(t, child), surfaces.CodeStopped)
	})
}

// A function gets the time that is left to the call that uses it.
func TestADeadlineReachesFunctions(t *testing.T) {
	w := fresh(t)
	w.put(args{"source": "def sf_sleeps():\n    import time\n    time.sleep(1000)"})
	// The code does not end at its deadline, so that its function comes to its own. On a
	// slow machine it may be stopped with the code first.
	for range 10 {
		res := w.exec(args{"timeout_s": 1.5, "code": "import time\ntry:\n    functions.sf_sleeps.sync()\nexcept KeyboardInterrupt:\n    time.sleep(1000)"})
		code(t, res, surfaces.CodeTimeout)
		list := w.children(res.CallID)
		if len(list) != 1 {
			t.Fatalf("got %+v, want one call of a function", list)
		}
		switch inner := w.ended(t, list[0].CallID); {
		case *inner.Code == surfaces.CodeTimeout && strings.Contains(*inner.Error, "timeout_s = 1."):
			return
		case *inner.Code != surfaces.CodeStopped:
			t.Fatalf("got %s, want a timeout, or the stop of the calling code", show(inner))
		}
	}
	t.Error("the function never came to the deadline")
}

// Notifications and questions of a function are delivered to the client of the call that uses
// it.
func TestEventsOfAFunction(t *testing.T) {
	w := fresh(t)
	w.put(args{"source": "async def sf_asks(q):\n    notify('asking ' + q)\n    return await request_clarification(q)"})
	w.put(args{"source": "async def sf_passes(q):\n    return await functions.sf_asks(q) + '!'"})
	events := w.stream(t.Context(), args{"code": "await functions.sf_passes('how')"})
	id := await(t, events, "started").data["call_id"].(string)
	if e := await(t, events, "notify"); e.data["text"] != "asking how" {
		t.Errorf("got %v, want the text \"asking how\"", e)
	}
	e := await(t, events, "clarification")
	if e.data["question"] != "how" {
		t.Errorf("got %v, want the question \"how\"", e)
	}
	w.steer(t, id, "answer", args{"id": e.data["id"], "answer": "so"})
	value(t, w.ended(t, id), `"so!"`)
}

// A function's uses of primitives count as the call's own, and are limited to the node's own
// primitives.
func TestPrimitivesOfAFunction(t *testing.T) {
	w := fresh(t)
	w.put(args{"source": "def sf_one(): return 1"})
	w.put(args{"source": "async def sf_many(n):\n    return [await functions.sf_one() for _ in range(n)]"})
	w.put(args{"source": "def sf_uses(): return primitives.math.plus.sync(a=1, b=2)"})
	c := w.calls(t, args{"code": tells + "[await told(functions.sf_many(3)), await told(functions.sf_many(3))]", "primitives_limit": 6}, nil)
	value(t, c.result(), `[[1,1,1],"PrimitiveError"]`)
	if got, want := w.primitiveUses(c.id), "1 functions.sf_many ok; 2 functions.sf_many PrimitiveError"; got != want {
		t.Errorf("recorded %s, want %s", got, want)
	}
	c = w.calls(t, args{"code": "try:\n    await functions.sf_uses()\nexcept PrimitiveError as e:\n    got = str(e)\ngot.split('\\n')[0]"}, nil)
	if res := ok(t, c.result()); !strings.Contains(string(res.Result), "not what the caller of that code offers") {
		t.Errorf("got %s, want an error that says that the caller does not offer it", show(res))
	}
	if len(c.asked) > 0 {
		t.Errorf("the caller was asked for %q", c.asked)
	}
	c = w.calls(t, args{"code": tells + "await told(functions.sf_never())"}, nil)
	value(t, c.result(), `"unknown"`)
}

// kill -9 of a session whose code has used functions: the second attempt gets the results of
// the finished ones, and waits for those that still run.
func TestFunctionsOfARetriedCall(t *testing.T) {
	w := fresh(t)
	w.put(args{"source": "def sf_counts(name):\n    open(name, 'a').write('x')\n    return len(open(name).read())"})
	w.put(args{"source": "def sf_waits(name):\n    import os, time\n    open(name, 'a').write('x')\n    print('inside', flush=True)\n    while not os.path.exists('go'): time.sleep(0.01)\n    return len(open(name).read())"})
	pid := string(ok(t, w.keep("s", "import os; os.getpid()")).Result)
	id, _ := w.startInFunction(t, "first = await functions.sf_counts('a')\n[first, await functions.sf_waits('b')]")
	ok(t, w.once("import os; os.kill("+pid+", 9)"))
	eventually(t, "the second attempt has come to the function", func() bool { return strings.Count(w.primitiveUses(id), "replayed") == 2 })
	ok(t, w.once("open('go', 'w')"))
	res := w.ended(t, id)
	value(t, res, "[1,1]")
	if res.Attempts != 2 {
		t.Errorf("got %s, want 2 attempts", show(res))
	}
}
