package node_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// put stores a function and returns its record.
func (w *world) put(a args) gateway.FunctionInfo {
	w.t.Helper()
	var f struct {
		gateway.FunctionInfo
		Error *string `json:"error"`
	}
	if status := w.post("/v1/functions", a, &f); status != http.StatusOK {
		w.t.Fatalf("store a function: status %d, want 200: %v", status, *f.Error)
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

// inEveryMode runs code that uses functions in each state mode.
func (w *world) inEveryMode(t *testing.T, code, want string) {
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
		t.Errorf("got %+v, want version 1 of sf_add with the signature and the docstring of its source", f)
	}
	g := w.put(args{"source": "async def sf_sum(n):\n    import asyncio\n    got = await asyncio.gather(*(functions.sf_add(i, 0) for i in range(n)))\n    return sum(got) + functions.sf_add.sync(1, b=0)"})
	if !g.Async || len(g.Needs) != 1 || g.Needs[0] != "sf_add" {
		t.Errorf("got %+v, want an async function that needs sf_add", g)
	}
	w.inEveryMode(t, "[await functions.sf_add(1), functions.sf_add.sync(1, 3, 5, scale=10), await functions.sf_sum(4)]", "[6,180,14]")
	w.inEveryMode(t, "import inspect; [str(inspect.signature(functions.sf_add)), 'Twice.' in functions.sf_add.__doc__, 'sf_sum' in dir(functions)]",
		`["(a: int, b: int = 2, *more, scale=1) -> int",true,true]`)

	value(t, w.call("sf_add", args{"args": []int{1}, "kwargs": args{"scale": 3}}), "18")
	value(t, w.call("sf_sum", args{"kwargs": args{"n": 2}}), "4")

	var list gateway.FunctionList
	if w.get("/v1/functions?q=ADD+twice", &list); len(list.Functions) != 1 || list.Functions[0].Name != "sf_add" {
		t.Errorf("found %+v", list.Functions)
	}

	// The next call runs the new version.
	if f = w.put(args{"source": "def sf_add(a, b=0):\n    return 'new'"}); f.Version != 2 {
		t.Errorf("got %+v, want version 2", f)
	}
	w.inEveryMode(t, "await functions.sf_add(1)", `"new"`)
}

func TestInvalidFunctionsAreRefused(t *testing.T) {
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
			t.Errorf("%q: status %d: %s, want 422 and a message with %q", source, status, show(refused), says)
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
		t.Errorf("got %q, want the traceback of sf_fails in line 3", res.Exception.Message)
	}
	// A call of the function from outside is reported like any code.
	res = code(t, w.call("sf_fails", args{"args": []int{0}}), surfaces.CodeException)
	if res.Exception.Type != "ZeroDivisionError" || res.Exception.Line != 3 || strings.Contains(res.Exception.Traceback, "cell") {
		t.Errorf("got %s, want a ZeroDivisionError in line 3, and no cell in its traceback", show(res))
	}
	if res = code(t, w.call("sf_fails", args{}), surfaces.CodeException); res.Exception.Line != 0 {
		t.Errorf("got %s, want an exception without a line", show(res))
	}
	if status := w.post("/v1/functions/sf_never/run", args{}, &res); status != 404 {
		t.Errorf("status %d, want 404", status)
	}
	far := code(t, w.once("await functions.sf_deep(20)"), surfaces.CodeException)
	if n := strings.Count(far.Exception.Message, `File "<function sf_deep>"`); n != 16 {
		t.Errorf("an error that has passed 16 functions tells of %d, in %d bytes", n, len(far.Exception.Message))
	}
}

func TestConcurrentFunctions(t *testing.T) {
	w := fresh(t)
	w.put(args{"source": "def sf_square(n): return n * n"})
	res := w.once("import asyncio\nsum(await asyncio.gather(*(functions.sf_square(i) for i in range(50))))")
	value(t, res, fmt.Sprint(49*50*99/6))
	if res.Usage.Primitives != 50 {
		t.Errorf("usage %+v, want 50 primitives", res.Usage)
	}
}

// Functions that read-only code calls are read-only too.
func TestFunctionsOfReadOnlyCode(t *testing.T) {
	w := fresh(t)
	w.put(args{"source": "def sf_writes():\n    open('f', 'w').write('changed')\n    return open('f').read()"})
	w.put(args{"source": "def sf_through(): return functions.sf_writes.sync()"})
	ok(t, w.keep("s", "open('f', 'w').write('kept')"))
	value(t, w.read("s", "[await functions.sf_writes(), await functions.sf_through(), open('f').read()]"), `["changed","changed","kept"]`)
	value(t, w.keep("s", "open('f').read()"), `"kept"`)
	value(t, w.keep("s", "await functions.sf_writes(), open('f').read()"), `["changed","changed"]`)
}

// Values that are not JSON are passed between interpreters of one version.
func TestValuesOfFunctions(t *testing.T) {
	w := fresh(t)
	w.put(args{"source": "def sf_same(x): return x"})
	w.inEveryMode(t, "import datetime, decimal; v = [(1, {2}), datetime.date(2020, 1, 2), decimal.Decimal('1.5'), b'x', 10**30]; await functions.sf_same(v) == v", "true")
	value(t, w.once("len(await functions.sf_same('x' * 10_000_000))"), "10000000")
	// A value that is not JSON is returned to the outside like that of any program.
	w.put(args{"source": "import datetime\ndef sf_date(): return datetime.date(2020, 1, 2)"})
	res := w.call("sf_date", args{})
	if value(t, res, `"datetime.date(2020, 1, 2)"`); *res.ResultType != "date" {
		t.Errorf("got %s, want result type date", show(res))
	}
}
