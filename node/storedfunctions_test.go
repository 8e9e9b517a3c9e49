package node_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// put stores a function and gives what is stored.
func (w *world) put(a args) gateway.FunctionInfo {
	w.t.Helper()
	var f struct {
		gateway.FunctionInfo
		Error *string `json:"error"`
	}
	if status := w.post("/v1/functions", a, &f); status != http.StatusOK {
		w.t.Fatalf("store a function: status %d: %v", status, *f.Error)
	}
	w.t.Cleanup(func() {
		if resp, err := w.request(w.t.Context(), "DELETE", "/v1/functions/"+f.Name, nil); err == nil {
			resp.Body.Close()
		}
	})
	return f.FunctionInfo
}

// call runs a function from outside.
func (w *world) call(name string, a args) surfaces.Result {
	w.t.Helper()
	var res surfaces.Result
	w.post("/v1/functions/"+name+"/run", a, &res)
	return res
}

// inModes runs code that uses functions in each state mode.
func (w *world) inModes(t *testing.T, code, want string) {
	t.Helper()
	ok(t, w.keep("modes", ""))
	value(t, w.once(code), want)
	value(t, w.keep("modes", code), want)
	value(t, w.read("modes", code), want)
}

func TestStoredFunctions(t *testing.T) {
	w := fresh(t)
	f := w.put(args{"source": `
import functools

def _twice(f):
    @functools.wraps(f)
    def twice(*args, **kwargs):
        return 2 * f(*args, **kwargs)
    return twice

class Helper:
    pass

@_twice
def sf_add(a: int, b: int = 2, *more, scale=1) -> int:
    """Add numbers.

    Twice.
    """
    return (a + b + sum(more)) * scale
`})
	if f.Name != "sf_add" || f.Signature != "(a: int, b: int = 2, *more, scale=1) -> int" || f.Doc != "Add numbers.\n\nTwice." || f.Async || f.Version != 1 || len(f.Needs) != 0 {
		t.Errorf("%+v", f)
	}
	g := w.put(args{"source": "async def sf_sum(n):\n    import asyncio\n    got = await asyncio.gather(*(functions.sf_add(i, 0) for i in range(n)))\n    return sum(got) + functions.sf_add.sync(1, b=0)"})
	if !g.Async || len(g.Needs) != 1 || g.Needs[0] != "sf_add" {
		t.Errorf("%+v", g)
	}
	w.inModes(t, "[await functions.sf_add(1), functions.sf_add.sync(1, 3, 5, scale=10), await functions.sf_sum(4)]", "[6,180,14]")
	w.inModes(t, "import inspect; [str(inspect.signature(functions.sf_add)), 'Twice.' in functions.sf_add.__doc__, 'sf_sum' in dir(functions)]",
		`["(a: int, b: int = 2, *more, scale=1) -> int",true,true]`)

	value(t, w.call("sf_add", args{"args": []int{1}, "kwargs": args{"scale": 3}}), "18")
	value(t, w.call("sf_sum", args{"kwargs": args{"n": 2}}), "4")

	var list gateway.FunctionList
	if w.get("/v1/functions?q=ADD+twice", &list); len(list.Functions) != 1 || list.Functions[0].Name != "sf_add" {
		t.Errorf("found %+v", list.Functions)
	}

	// Another version: the next call runs it.
	if f = w.put(args{"source": "def sf_add(a, b=0):\n    return 'new'"}); f.Version != 2 {
		t.Errorf("%+v", f)
	}
	w.inModes(t, "await functions.sf_add(1)", `"new"`)
}

func TestWhatIsNoFunction(t *testing.T) {
	w := fresh(t)
	for source, says := range map[string]string{
		"x = 1":                           "defines no function",
		"def f():\n    yield 1":           "f is a generator (line 2 has a yield)",
		"async def f():\n    yield 1":     "f is an async generator",
		"def f():\n  return\n x":          "line 3",
		"def f(): pass\ndef g(): pass":    "the source defines f, g",
		"def f(): functions.never.sync()": "functions.never, which is not stored",
		"print('ran'); def f(): pass":     "line 1",
	} {
		var refused surfaces.Result
		status := w.post("/v1/functions", args{"source": source}, &refused)
		if status != 422 || refused.Error == nil || !strings.Contains(*refused.Error, says) || refused.Suggestion == nil {
			t.Errorf("%q: status %d: %s", source, status, show(refused))
		}
	}
}

func TestFunctionsThatFail(t *testing.T) {
	w := fresh(t)
	w.put(args{"source": "def sf_fails(x):\n    y = 1\n    return y / x"})
	w.put(args{"source": "def sf_outer(x):\n    return functions.sf_fails.sync(x)"})
	w.put(args{"source": "import sys\ndef sf_exits(): sys.exit(3)"})
	w.put(args{"source": "import os\ndef sf_dies(): os.kill(os.getpid(), 9)"})
	w.put(args{"source": "def sf_deep(n): return n and functions.sf_deep.sync(n - 1)"})
	w.put(args{"source": "class sf_Error(Exception): pass\ndef sf_raises(): raise sf_Error('mine')"})
	told := "async def told(what):\n    try:\n        return await what\n    except PrimitiveError as e:\n        return [e.type, str(e).split('\\n')[0]]\n"
	for code, want := range map[string]string{
		"functions.sf_fails(0)":              `["ZeroDivisionError","division by zero"]`,
		"functions.sf_fails()":               `["TypeError","sf_fails() missing 1 required positional argument: 'x'"]`,
		"functions.sf_outer(0)":              `["PrimitiveError","division by zero"]`,
		"functions.sf_exits()":               `["exit","functions.sf_exits ended its process and gave nothing but the status 3"]`,
		"functions.sf_dies()":                `["killed","functions.sf_dies: the process under the call was killed by SIGKILL"]`,
		"functions.sf_raises()":              `["sf_Error","mine"]`,
		"functions.sf_fail(0)":               `["unknown","there is no stored function sf_fail; did you mean functions.sf_fails?"]`,
		"primitives.functions.sf_fails(x=1)": `["invalid","stored functions are called as functions.sf_fails(...)"]`,
		"functions.sf_deep(15)":              `0`,
		"functions.sf_deep(16)":              `["PrimitiveError","functions.sf_deep was called by a function that was called by another, 16 deep, which is the limit"]`,
		"functions.sf_fails({1})":            `["TypeError","unsupported operand type(s) for /: 'int' and 'set'"]`,
		"functions.sf_fails(0.25)":           `4.0`,
	} {
		value(t, w.once(told+"await told("+code+")"), want)
	}
	res := code(t, w.once("await functions.sf_fails(0)"), surfaces.CodeException)
	if !strings.Contains(res.Exception.Message, "line 3, in sf_fails\n    return y / x") {
		t.Error(res.Exception.Message)
	}
	// From outside it is as with any code.
	res = code(t, w.call("sf_fails", args{"args": []int{0}}), surfaces.CodeException)
	if res.Exception.Type != "ZeroDivisionError" || res.Exception.Line != 3 || strings.Contains(res.Exception.Traceback, "cell") {
		t.Error(show(res))
	}
	if res = code(t, w.call("sf_fails", args{}), surfaces.CodeException); res.Exception.Line != 0 {
		t.Error(show(res))
	}
	if status := w.post("/v1/functions/sf_never/run", args{}, &res); status != 404 {
		t.Errorf("status %d", status)
	}
}

func TestManyFunctionsAtOnce(t *testing.T) {
	w := fresh(t)
	w.put(args{"source": "def sf_square(n): return n * n"})
	res := w.once("import asyncio\nsum(await asyncio.gather(*(functions.sf_square(i) for i in range(50))))")
	value(t, res, fmt.Sprint(49*50*99/6))
	if res.Usage.Primitives != 50 {
		t.Errorf("usage %+v", res.Usage)
	}
}

// children lists the calls that the code of a call has made, those that run last first.
func (w *world) children(id string) []gateway.CallSummary {
	w.t.Helper()
	var list gateway.ExecutionList
	w.get("/v1/executions", &list)
	return slices.DeleteFunc(list.Executions, func(s gateway.CallSummary) bool { return s.Parent != id })
}

// within starts a call that is inside of a function, which has said that it runs.
func (w *world) within(t *testing.T, code string) (id, child string) {
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

func TestWhatAFunctionPrintsIsItsOwn(t *testing.T) {
	w := fresh(t)
	w.put(args{"source": "import sys\ndef sf_prints():\n    print('out'); print('err', file=sys.stderr)\n    return 1"})
	res := w.once("print('mine'); await functions.sf_prints()")
	value(t, res, "1")
	stdout(t, res, "mine\n")
	list := w.children(res.CallID)
	if len(list) != 1 || list[0].Function != "sf_prints" || list[0].Status != surfaces.StatusDone {
		t.Fatalf("%+v", list)
	}
	if inner := w.result(list[0].CallID); inner.Stdout != "out\n" || inner.Stderr != "err\n" {
		t.Error(show(inner))
	}
}

func TestSteeringReachesFunctions(t *testing.T) {
	w := fresh(t)
	w.put(args{"source": "def sf_ticks():\n    import time\n    print('inside', flush=True)\n    while True:\n        print('tick', flush=True)\n        time.sleep(0.001)"})
	w.put(args{"source": "async def sf_hears():\n    print('inside', flush=True)\n    return await interjections.get()"})
	w.put(args{"source": "def sf_calls():\n    print('inside', flush=True)\n    functions.sf_ticks.sync()"})

	t.Run("pause, resume and stop, also two deep", func(t *testing.T) {
		id, middle := w.within(t, "await functions.sf_calls()")
		eventually(t, "the inner one runs", func() bool {
			return len(w.children(middle)) == 1 && len(w.result(w.children(middle)[0].CallID).Stdout) > 100
		})
		inner := w.children(middle)[0].CallID
		size := func() int { return len(w.result(inner).Stdout) }
		w.steer(t, id, "pause", nil)
		var before int
		eventually(t, "output stands still", func() bool {
			before = size()
			for range 20 {
				if size() != before {
					return false
				}
			}
			return true
		})
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
		id, _ := w.within(t, "[await functions.sf_hears(), await interjections.get()]")
		w.steer(t, id, "interject", args{"message": "hurry"})
		value(t, w.ended(t, id), `["hurry","hurry"]`)
	})
	t.Run("stopping the function alone", func(t *testing.T) {
		id, child := w.within(t, "try:\n    await functions.sf_ticks()\nexcept PrimitiveError as e:\n    got = e.type\ngot")
		w.steer(t, child, "stop", nil)
		value(t, w.ended(t, id), `"stopped"`)
	})
	t.Run("code that ends does not leave its functions", func(t *testing.T) {
		id, child := w.within(t, "import asyncio\nt = asyncio.ensure_future(functions.sf_ticks())\nwhile not interjections.pending(): await asyncio.sleep(0.01)")
		w.steer(t, id, "interject", args{"message": "go"})
		ok(t, w.ended(t, id))
		code(t, w.ended(t, child), surfaces.CodeStopped)
	})
}

// What time is left to a call is what its functions have.
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
			t.Fatalf("%+v", list)
		}
		switch inner := w.ended(t, list[0].CallID); {
		case *inner.Code == surfaces.CodeTimeout && strings.Contains(*inner.Error, "timeout_s = 1."):
			return
		case *inner.Code != surfaces.CodeStopped:
			t.Fatal(show(inner))
		}
	}
	t.Error("the function never came to the deadline")
}

// What a function has to tell people is told to who follows the call.
func TestWhatAFunctionTells(t *testing.T) {
	w := fresh(t)
	w.put(args{"source": "async def sf_asks(q):\n    notify('asking ' + q)\n    return await request_clarification(q)"})
	w.put(args{"source": "async def sf_passes(q):\n    return await functions.sf_asks(q) + '!'"})
	events := w.stream(t.Context(), args{"code": "await functions.sf_passes('how')"})
	id := await(t, events, "started").data["call_id"].(string)
	if e := await(t, events, "notify"); e.data["text"] != "asking how" {
		t.Error(e)
	}
	e := await(t, events, "clarification")
	if e.data["question"] != "how" {
		t.Error(e)
	}
	w.steer(t, id, "answer", args{"id": e.data["id"], "answer": "so"})
	value(t, w.ended(t, id), `"so!"`)
}

// The uses of a function count as the call's own, and can be no others than the host
// has.
func TestPrimitivesOfAFunction(t *testing.T) {
	w := fresh(t)
	w.put(args{"source": "def sf_one(): return 1"})
	w.put(args{"source": "async def sf_many(n):\n    return [await functions.sf_one() for _ in range(n)]"})
	w.put(args{"source": "def sf_uses(): return primitives.math.plus.sync(a=1, b=2)"})
	c := w.calls(t, args{"code": tells + "[await told(functions.sf_many(3)), await told(functions.sf_many(3))]", "primitives_limit": 6}, nil)
	value(t, c.result(), `[[1,1,1],"PrimitiveError"]`)
	if got := w.uses(c.id); got != "1 functions.sf_many ok; 2 functions.sf_many PrimitiveError" {
		t.Errorf("recorded %s", got)
	}
	c = w.calls(t, args{"code": "try:\n    await functions.sf_uses()\nexcept PrimitiveError as e:\n    got = str(e)\ngot.split('\\n')[0]"}, nil)
	if res := ok(t, c.result()); !strings.Contains(string(res.Result), "not what the caller of that code offers") {
		t.Error(show(res))
	}
	if len(c.asked) > 0 {
		t.Errorf("the caller was asked for %q", c.asked)
	}
	c = w.calls(t, args{"code": tells + "await told(functions.sf_never())"}, nil)
	value(t, c.result(), `"unknown"`)
}

// Functions of code that may change nothing can change nothing either.
func TestFunctionsOfReadOnlyCode(t *testing.T) {
	w := fresh(t)
	w.put(args{"source": "def sf_writes():\n    open('f', 'w').write('changed')\n    return open('f').read()"})
	w.put(args{"source": "def sf_through(): return functions.sf_writes.sync()"})
	ok(t, w.keep("s", "open('f', 'w').write('kept')"))
	value(t, w.read("s", "[await functions.sf_writes(), await functions.sf_through(), open('f').read()]"), `["changed","changed","kept"]`)
	value(t, w.keep("s", "open('f').read()"), `"kept"`)
	value(t, w.keep("s", "await functions.sf_writes(), open('f').read()"), `["changed","changed"]`)
}

// Values that are no JSON cross between interpreters of one version.
func TestValuesOfFunctions(t *testing.T) {
	w := fresh(t)
	w.put(args{"source": "def sf_same(x): return x"})
	w.inModes(t, "import datetime, decimal; v = [(1, {2}), datetime.date(2020, 1, 2), decimal.Decimal('1.5'), b'x', 10**30]; await functions.sf_same(v) == v", "true")
	value(t, w.once("len(await functions.sf_same('x' * 10_000_000))"), "10000000")
	// From outside what is no JSON is shown as of any program.
	w.put(args{"source": "import datetime\ndef sf_date(): return datetime.date(2020, 1, 2)"})
	res := w.call("sf_date", args{})
	if value(t, res, `"datetime.date(2020, 1, 2)"`); *res.ResultType != "date" {
		t.Error(show(res))
	}
}

// kill -9 of a session whose code has used functions: what they gave is given again,
// and what is under way is joined.
func TestFunctionsOfACallThatIsTriedAgain(t *testing.T) {
	w := fresh(t)
	w.put(args{"source": "def sf_counts(name):\n    open(name, 'a').write('x')\n    return len(open(name).read())"})
	w.put(args{"source": "def sf_waits(name):\n    import os, time\n    open(name, 'a').write('x')\n    print('inside', flush=True)\n    while not os.path.exists('go'): time.sleep(0.01)\n    return len(open(name).read())"})
	pid := string(ok(t, w.keep("s", "import os; os.getpid()")).Result)
	id, _ := w.within(t, "first = await functions.sf_counts('a')\n[first, await functions.sf_waits('b')]")
	ok(t, w.once("import os; os.kill("+pid+", 9)"))
	eventually(t, "the second attempt has come to the function", func() bool { return strings.Count(w.uses(id), "replayed") == 2 })
	ok(t, w.once("open('go', 'w')"))
	res := w.ended(t, id)
	value(t, res, "[1,1]")
	if res.Attempts != 2 {
		t.Error(show(res))
	}
}

// Two functions that call one another, each with another major of one library.
func TestFunctionsInEnvironments(t *testing.T) {
	w := fresh(t)
	one, two := w.venv(project("one", "urllib3<2", "idna")), w.venv(project("two", "urllib3>=2,<3"))
	needsIndex(t, w.exec(args{"code": "1", "venv_id": one}))
	old := w.put(args{"venv_id": one, "source": `
import urllib3

def sf_old(deep):
    """The old one."""
    return [urllib3.__version__[0]] + (functions.sf_old.sync(deep - 1) if deep else [])
`})
	if *old.VenvID != one {
		t.Errorf("%+v", old)
	}
	w.put(args{"venv_id": two, "source": "import urllib3\nasync def sf_new(deep):\n    return [urllib3.__version__[0]] + (await functions.sf_old(deep - 1) if deep else [])"})
	w.put(args{"venv_id": one, "source": strings.ReplaceAll(old.Source, "functions.sf_old", "functions.sf_new")})
	w.inModes(t, "await functions.sf_new(3)", `["2","1","2","1"]`)
	value(t, w.exec(args{"venv_id": two, "code": "import urllib3; [urllib3.__version__[0], *await functions.sf_old(2)]"}), `["2","1","2","1"]`)
	value(t, w.call("sf_old", args{"args": []int{1}}), `["1","2"]`)

	// Objects of a library that both have cross, too; of one that they have not, not.
	w.put(args{"venv_id": two, "source": "def sf_timeout(x=None):\n    import urllib3\n    return x or urllib3.Timeout(3)"})
	value(t, w.exec(args{"venv_id": two, "code": "(await functions.sf_timeout()).connect_timeout"}), "3")
	w.put(args{"venv_id": one, "source": "import idna\ndef sf_odd(): return idna.IDNAError()"})
	res := code(t, w.exec(args{"venv_id": two, "code": "await functions.sf_odd()"}), surfaces.CodeException)
	if !strings.Contains(res.Exception.Message, "No module named 'idna'") {
		t.Error(show(res))
	}
}

// What cannot be built is told to who stores or calls a function.
func TestFunctionsInAnEnvironmentThatCannotBeBuilt(t *testing.T) {
	w := fresh(t)
	id := w.venv(project("never", "urllib3==1.26.99999"))
	var refused surfaces.Result
	if status := w.post("/v1/functions", args{"venv_id": id, "source": "def sf_f(): pass"}, &refused); status != 422 || *refused.Code != surfaces.CodeBuildFailed {
		t.Errorf("status %d: %s", status, show(refused))
	}
	if status := w.post("/v1/functions", args{"venv_id": 9999, "source": "def sf_f(): pass"}, &refused); status != 422 || *refused.Code != surfaces.CodeVenvNotFound {
		t.Errorf("status %d: %s", status, show(refused))
	}
}

// The caller's node, the one with the session and the one with the function's
// environment are three different ones, and steering comes in at any of them.
func TestFunctionsThroughAMesh(t *testing.T) {
	all := mesh(t, 3)
	own, others := owner(t, all, ok(t, all[0].keep("s", "x = 1")))
	caller, builder := others[0], others[1]
	id := builder.venv("[project]\nname = \"shared\"\nversion = \"1\"\ndependencies = []\n")
	var built gateway.VenvInfo
	if status := builder.post(fmt.Sprintf("/v1/venvs/%d/build", id), args{}, &built); status != 200 {
		t.Fatalf("build: status %d", status)
	}
	eventually(t, "the caller's node knows who has built it", func() bool {
		var info gateway.VenvInfo
		caller.get(fmt.Sprintf("/v1/venvs/%d", id), &info)
		return slices.Contains(info.Built, builder.id())
	})
	own.put(args{"venv_id": id, "source": "import sys\nasync def sf_where(x):\n    return [sys.prefix, x]"})
	own.put(args{"venv_id": id, "source": "def sf_ticks():\n    import time\n    print('inside', flush=True)\n    while True:\n        print('tick', flush=True)\n        time.sleep(0.001)"})
	res := caller.keep("s", "x = await functions.sf_where((1, 'x' * 1_000_000)); [x[0], len(x[1][1])]")
	if ok(t, res); res.Node != own.id() || !strings.HasSuffix(string(res.Result), ",1000000]") {
		t.Fatalf("%.300s", show(res))
	}
	if list := caller.children(res.CallID); len(list) != 1 || caller.result(list[0].CallID).Node != builder.id() {
		t.Fatalf("%+v", list)
	}
	for _, at := range all {
		parent, child := caller.within(t, "await functions.sf_ticks()")
		size := func() int { return len(caller.result(child).Stdout) }
		at.steer(t, parent, "pause", nil)
		var before int
		eventually(t, "output stands still", func() bool {
			before = size()
			for range 20 {
				if size() != before {
					return false
				}
			}
			return true
		})
		at.steer(t, parent, "resume", nil)
		eventually(t, "output goes on", func() bool { return size() > before })
		at.steer(t, parent, "stop", nil)
		code(t, caller.ended(t, parent), surfaces.CodeStopped)
		if inner := code(t, caller.ended(t, child), surfaces.CodeStopped); inner.Node != builder.id() {
			t.Error(show(inner))
		}
	}
}

// A use of a function beside the stateless call that it is made of.
func BenchmarkStoredFunction(b *testing.B) {
	w := fresh(b)
	w.put(args{"source": "def sf_nothing(): return 1"})
	plain := measure(100, func() { value(b, w.once("1"), "1") })
	for b.Loop() {
		res := w.keep("s", "import time\ntook = []\nfor _ in range(100):\n    began = time.perf_counter()\n    await functions.sf_nothing()\n    took.append(time.perf_counter() - began)\nsorted(took)[50] * 1e6")
		us, err := strconv.ParseFloat(string(ok(b, res).Result), 64)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(us, "use-us")
		b.ReportMetric(us*1e3/float64(plain.at(0.5)), "of-a-stateless-call")
	}
	plain.report(b, "stateless")
}
