package python_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/locusrun/locus/node/kernel"
)

// TestResults checks what a fresh session makes of one program: the result's JSON,
// and its type.
func TestResults(t *testing.T) {
	s := newHouse(t).session()
	for _, c := range []struct{ code, result, kind string }{
		{"", "", ""},
		{"# only a comment", "", ""},
		{"   \n\t\n", "", ""},
		{"None", "", ""},
		{"1 + 1", "2", "int"},
		{"1 + 1;", "", ""},
		{"x = 5; x", "5", "int"},
		{"x;  # gone", "", ""},
		{"'a;b'", `"a;b"`, "str"},
		{"True", "true", "bool"},
		{"1.5", "1.5", "float"},
		{"2 ** 70", "1180591620717411303424", "int"},
		{"-2**62", "-4611686018427387904", "int"},
		{"[1, 'a', None, {'k': [True]}]", `[1,"a",null,{"k":[true]}]`, "list"},
		{"(1, 2)", "[1,2]", "tuple"},
		{"{1: 2}", `"{1: 2}"`, "dict"},
		{"{'a', }", `"{'a'}"`, "set"},
		{"float('nan')", `"nan"`, "float"},
		{"[float('inf')]", `"[inf]"`, "list"},
		{"b'a'", `"b'a'"`, "bytes"},
		{"'\\udead'", `"'\\udead'"`, "str"},
		{"{'\\udead': 1}", `"{'\\udead': 1}"`, "dict"},
		{"'é'", `"\u00e9"`, "str"},
		{"import decimal; decimal.Decimal('1.5')", `"Decimal('1.5')"`, "Decimal"},
		{"class C:\n    def __repr__(self): return 'it is C'\nC()", `"it is C"`, "C"},
		{"\ufeff1 + 2", "3", "int"},
		{"a = 1\r\nb = 2\r\na + b\r\n", "3", "int"},
		{"\f1\f", "1", "int"},
		{"if True:\n\tz = 7\nz", "7", "int"},
		{"_ = 9\n_", "9", "int"},
		{"11", "11", "int"},
		{"_", "9", "int"},
		{"__name__", `"__main__"`, "str"},
		{"import sys; sys.modules['__main__'].x", "5", "int"},
		{"'__file__' in globals()", "false", "bool"},
		{"sys.argv", `[""]`, "list"},
		{"def f(): ...\nf.__module__", `"__main__"`, "str"},
		{"lambda: 1", "", "function"},
	} {
		o := s.must(c.code)
		if c.kind == "function" {
			if o.ResultType != "function" {
				t.Errorf("%q: type %s", c.code, o.ResultType)
			}
			continue
		}
		if o.result() != c.result || o.ResultType != c.kind {
			t.Errorf("%q gave %s of type %q, want %s of type %q", c.code, o.result(), o.ResultType, c.result, c.kind)
		}
	}
}

func TestReprsThatMisbehave(t *testing.T) {
	s := newHouse(t).session()
	s.must(`
class Raises:
    def __repr__(self): raise ValueError('no')
class Deep:
    def __repr__(self): return repr(self)
class Surrogate:
    def __repr__(self): return '\udcc3'
class Hostile:
    def __getattr__(self, name): raise RuntimeError(name)
    def __eq__(self, other): raise RuntimeError('eq')
    def __hash__(self): raise RuntimeError('hash')
    def __bool__(self): raise RuntimeError('bool')
    def __len__(self): raise RuntimeError('len')
    def __reduce__(self): raise RuntimeError('reduce')
    def __repr__(self): return 'hostile'
class Opaque:
    def __getattribute__(self, name): raise RuntimeError(name)
    def __repr__(self): return 'opaque'
class Attributes:
    def __getattr__(self, name): return lambda *a, **k: 'x'
    def __repr__(self): return 'attributes'
class Long:
    def __repr__(self): return 'y' * 10_000_000
`)
	for code, want := range map[string]string{
		"Raises()":     "repr raised ValueError",
		"Deep()":       "repr raised RecursionError",
		"Surrogate()":  `\udcc3`,
		"Hostile()":    "hostile",
		"Opaque()":     "opaque",
		"Attributes()": "attributes",
		"Long()":       "characters cut",
		"[Raises()]":   "repr raised ValueError",
		"10 ** 10_000": "int of",
		"d = {}\nfor i in range(100_000): d = {'d': d}\nd": "...",
		"[0] * 10 ** 8": "... 99999900 more",
		"'x' * 10 ** 8": "more",
	} {
		o := s.must(code)
		if !strings.Contains(o.result(), want) || len(o.result()) > 1<<20 {
			t.Errorf("%q gave %.300s, want %q in it", code, o.result(), want)
		}
		if !json.Valid(o.Result) {
			t.Errorf("%q: the result is not JSON", code)
		}
	}
}

func TestExceptions(t *testing.T) {
	s := newHouse(t).session()
	for _, c := range []struct {
		code, kind, message string
		line                int
		trace               []string
	}{
		{"1/0", "ZeroDivisionError", "division by zero", 1, []string{`File "<cell `, "1/0"}},
		{"x = 1\n\ndef f():\n    raise KeyError('k')\nf()", "KeyError", "'k'", 4, []string{"line 5, in <module>", "line 4, in f", "raise KeyError('k')"}},
		{"x = (", "SyntaxError", "", 1, nil},
		{"y = 1\nreturn 5", "SyntaxError", "'return' outside function", 2, nil},
		{"def f():\n    await g()", "SyntaxError", "'await' outside async function", 2, nil},
		{"if 1:\n\tx=1\n        y=2", "TabError", "", 3, nil},
		{"raise Exception(chr(0xd8ff))", "Exception", "", 1, nil},
		{"class Mine(Exception): pass\nraise Mine('m')", "Mine", "m", 2, []string{"Mine: m"}},
		{"import json\njson.loads('{')", "JSONDecodeError", "", 2, []string{"json.loads('{')"}},
		{"try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise ValueError('v') from e", "ValueError", "v", 4, []string{"direct cause", "ZeroDivisionError", "line 2"}},
		{"class E(Exception):\n    def __str__(self): raise RuntimeError('in str')\nraise E", "E", "<no message", 3, nil},
		{"raise GeneratorExit('g')", "GeneratorExit", "g", 1, nil},
		{"import asyncio\nraise asyncio.CancelledError('c')", "CancelledError", "c", 2, nil},
		{"raise KeyboardInterrupt('k')", "KeyboardInterrupt", "k", 1, nil},
		{"raise ValueError('long' * 10**6)", "ValueError", "characters cut", 1, nil},
		{"def r(): r()\nr()", "RecursionError", "", 1, []string{"r()"}},
		{"!ls", "SyntaxError", "not a notebook", 1, nil},
		{"%time x", "SyntaxError", "not a notebook", 1, nil},
		{"?x", "SyntaxError", "not a notebook", 1, nil},
		{"x?", "SyntaxError", "not a notebook", 1, nil},
		{"files = !ls", "SyntaxError", "not a notebook", 1, nil},
		{"input('name?')", "EOFError", "nobody can type here", 1, nil},
	} {
		o := s.run(c.code)
		e := o.exception()
		if e.Type != c.kind || !strings.Contains(e.Message, c.message) || e.Line != c.line {
			t.Errorf("%q: %s %q line %d, want %s %q line %d", c.code, e.Type, e.Message, e.Line, c.kind, c.message, c.line)
		}
		for _, part := range c.trace {
			if !strings.Contains(e.Traceback, part) {
				t.Errorf("%q: the traceback lacks %q:\n%s", c.code, part, e.Traceback)
			}
		}
		if strings.Contains(e.Traceback, "locus") || strings.Contains(e.Traceback, "json/decoder") {
			t.Errorf("%q: frames that are not the caller's:\n%s", c.code, e.Traceback)
		}
		if len(e.Traceback) > 70<<10 || len(e.Message) > 20<<10 {
			t.Errorf("%.50q: %d bytes of traceback, %d of message", c.code, len(e.Traceback), len(e.Message))
		}
	}
	s.expect("1 + 1", "2")
}

func TestExceptionGroups(t *testing.T) {
	s := newHouse(t).session()
	if s.must("import sys; sys.version_info >= (3, 11)").result() != "true" {
		t.Skip("this Python has no exception groups")
	}
	e := s.run("def a(): 1/0\ntry: a()\nexcept Exception as e: raise ExceptionGroup('many', [e, ValueError('v')])").exception()
	for _, part := range []string{"many", "ZeroDivisionError", "ValueError: v", "line 1, in a"} {
		if !strings.Contains(e.Traceback, part) {
			t.Errorf("the traceback lacks %q:\n%s", part, e.Traceback)
		}
	}
	if strings.Contains(e.Traceback, "locus") {
		t.Error(e.Traceback)
	}
}

func TestExitEndsTheCallOnly(t *testing.T) {
	h := newHouse(t)
	s := h.session()
	s.must("x = 1")
	for _, c := range []struct {
		code   string
		status int
		stderr string
	}{
		{"exit()", 0, ""}, {"quit()", 0, ""}, {"raise SystemExit", 0, ""}, {"import sys; sys.exit(3)", 3, ""},
		{"sys.exit(None)", 0, ""}, {"sys.exit('bad')", 1, "bad\n"}, {"sys.exit(256 + 7)", 7, ""}, {"sys.exit(-1)", 255, ""}, {"sys.exit(1 << 70)", 255, ""},
		{"import asyncio\nasync def f(): sys.exit(4)\nawait f()", 4, ""},
		{"async def g():\n    asyncio.ensure_future(f())\n    await asyncio.sleep(30)\nawait g()", 4, ""},
	} {
		o := s.run(c.code)
		if o.ExitCode == nil || *o.ExitCode != c.status || o.stderr() != c.stderr || o.Exception != nil {
			t.Errorf("%q: got the status %v, errors %q, exception %+v; want status %d, errors %q", c.code, o.ExitCode, o.stderr(), o.Exception, c.status, c.stderr)
		}
	}
	s.expect("x", "1")
	if o := h.once(kernel.Program{Code: "print('a', end='')\nexit(9)"}); o.ExitCode == nil || *o.ExitCode != 9 || o.stdout() != "a" {
		t.Errorf("one-shot: %+v", o)
	}
}

func TestFutureStatementsPersist(t *testing.T) {
	s := newHouse(t).session()
	s.must("from __future__ import annotations\nimport os")
	s.must("def f(x: Unknown) -> Missing: return x")
	s.expect("f.__annotations__", `{"x":"Unknown","return":"Missing"}`)
	o := s.run("x = 1\nfrom __future__ import annotations")
	if o.exception().Line != 2 {
		t.Fatalf("got %+v, want an exception in line 2", o.exception())
	}
}

func TestSourcesAndPickles(t *testing.T) {
	s := newHouse(t).session()
	s.must("import inspect, pickle, dataclasses\ndef f(x):\n    # a comment\n    return x")
	s.expect("inspect.getsource(f)", `"def f(x):\n    # a comment\n    return x\n"`)
	s.must("class A:\n    def m(self): return 1\n\nclass B:\n    y = 2\n\n@dataclasses.dataclass\nclass P:\n    x: int = 1")
	s.expect("inspect.getsource(A)", `"class A:\n    def m(self): return 1\n"`)
	s.expect("inspect.getsource(B)", `"class B:\n    y = 2\n"`)
	s.expect("pickle.loads(pickle.dumps(P(3))).x", "3")
	s.expect("pickle.loads(pickle.dumps(f)) is f", "true")
}

func TestWorkspaceIsImportedFrom(t *testing.T) {
	h := newHouse(t)
	for name, text := range map[string]string{
		"helper.py": "def h():\n    raise ValueError('from helper')\n",
		// It must not reach the worker, only the caller.
		"json.py": "mine = True\n", "frames.py": "", "contextlib.py": "raise SystemExit(1)\n",
	} {
		if err := os.WriteFile(filepath.Join(h.workspace, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := h.session()
	e := s.run("import helper\nhelper.h()").exception()
	if e.Type != "ValueError" || !strings.Contains(e.Traceback, "helper.py") || e.Line != 2 {
		t.Fatalf("got %+v, want Type \"ValueError\", Traceback with \"helper.py\", Line 2", e)
	}
	s.expect("import os; os.getcwd() == "+fmt.Sprintf("%q", h.workspace), "true")
	// Another family starts in that folder as well.
	o := newHouse(t, func(c *pythonConfig) { c.Workspace = h.workspace; c.Container = h.container }).once(kernel.Program{Code: "1 + 1"})
	if o.err != nil || o.result() != "2" {
		t.Fatalf("got %+v, want the result 2", o)
	}
}

func TestStateDiff(t *testing.T) {
	s := newHouse(t).session()
	diff := func(code string) string {
		o := s.program(kernel.Program{Code: code, Diff: true})
		if o.Diff == nil {
			t.Fatal("no diff")
		}
		if o.Diff.Added == nil || o.Diff.Changed == nil || o.Diff.Removed == nil {
			t.Fatal("a list of the diff is null")
		}
		return fmt.Sprint(o.Diff.Added, o.Diff.Changed, o.Diff.Removed)
	}
	for _, c := range []struct{ code, want string }{
		{"x = 1; y = [1]; _z = object()", "[_z x y] [] []"},
		{"x = 1; y.append(2)", "[] [] []"},
		{"x = 2; y = y", "[] [x] []"},
		{"y = list(y)", "[] [y] []"},
		{"del x", "[] [] [x]"},
		{"import os\ndef f(): pass", "[f os] [] []"},
		{"def f(): pass\nclass C: pass", "[C] [f] []"},
		{"q = 1\n1/0", "[q] [] []"},
		{"1", "[] [] []"},
		{"globals().clear()", "[] [] [C _z f os q y]"},
		{"1 + 1", "[] [] []"},
		{"a = 'x' * 1000", "[a] [] []"},
		{"a = 'y' * 1000", "[] [a] []"},
	} {
		if got := diff(c.code); got != c.want {
			t.Errorf("%q: %s, want %s", c.code, got, c.want)
		}
	}
}

func TestStateDiffReleasesLargeObjects(t *testing.T) {
	s := newHouse(t).session()
	s.program(kernel.Program{Code: "import weakref\nclass Big: pass\nb = Big()\nl = [Big()]\nr, q = weakref.ref(b), weakref.ref(l[0])", Diff: true})
	o := s.program(kernel.Program{Code: "del b, l\n[r() is None, q() is None]", Diff: true})
	if o.result() != "[true,true]" {
		t.Fatal(o.result())
	}
}

func TestWholeLanguage(t *testing.T) {
	s := newHouse(t).session()
	s.must(`
import enum, dataclasses, functools
class Colour(enum.Enum):
    RED = 1
class Meta(type):
    def __new__(m, n, b, d): d['made'] = True; return super().__new__(m, n, b, d)
class M(metaclass=Meta): pass
@dataclasses.dataclass
class P:
    x: int
@functools.lru_cache
def fib(n): return n if n < 2 else fib(n-1) + fib(n-2)
def gen():
    got = yield 1
    yield got
g = gen(); next(g)
if (n := 10) > 5: walrus = n
`)
	s.expect("[Colour.RED.name, M.made, P(4).x, fib(50), g.send('s'), walrus]", `["RED",true,4,12586269025,"s",10]`)
	if s.must("import sys; sys.version_info >= (3, 10)").result() == "true" {
		s.expect("match P(7):\n    case P(x=v): pass\nv", "7")
	}
}

func TestHugeSources(t *testing.T) {
	s := newHouse(t).session()
	big := strings.Repeat("x", 10<<20)
	s.expect("t = '"+big+"'\nlen(t)", fmt.Sprint(10<<20))
	s.expect(strings.Repeat("# a comment line\n", 60_000)+"1", "1")
	for _, code := range []string{strings.Repeat("[", 100_000), strings.Repeat("-", 100_000) + "1", strings.Repeat("(", 100_000) + strings.Repeat(")", 100_000)} {
		o := s.try(kernel.Program{Code: code})
		if o.err != nil {
			t.Fatalf("%.3s...: %v", code, o.err)
		}
		if !slices.Contains([]string{"SyntaxError", "MemoryError", "RecursionError"}, o.exception().Type) {
			t.Errorf("%.3s...: %+v", code, o.exception())
		}
	}
	s.expect("1", "1")
}

func TestStdin(t *testing.T) {
	h := newHouse(t)
	s := h.session()
	o := s.program(kernel.Program{Code: "a = input('first? '); b = input()\na + b", Stdin: "one\ntwo\nthree\n"})
	if o.result() != `"onetwo"` || o.stdout() != "first? " {
		t.Fatalf("got %s, output %q; want \"onetwo\" and the prompt", o.result(), o.stdout())
	}
	s.expect("import sys; sys.stdin.read()", `""`)
	s.expect("sys.stdin.read()", `""`)
	o = s.program(kernel.Program{Code: "import subprocess; subprocess.run(['cat'], capture_output=True, text=True).stdout", Stdin: "through"})
	if o.result() != `"through"` {
		t.Fatal(o.result())
	}
	s.expect("subprocess.run(['cat'], capture_output=True, text=True).stdout", `""`)
	if e := s.run("input()").exception(); e.Type != "EOFError" {
		t.Fatalf("got %+v, want Type \"EOFError\"", e)
	}
	s.expect("1", "1")
}
