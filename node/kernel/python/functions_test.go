package python_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/kernel/python"
)

// library answers functions.NAME by running its source in a one-shot of its own.
type library struct {
	house   *house
	sources map[string]string
	// python is what arguments and results claim to be pickled by, if not the truth.
	lie func(json.RawMessage) json.RawMessage
}

func (l *library) answer(e kernel.Event) any {
	name := strings.TrimPrefix(e.Name, "functions.")
	data := e.Data
	if l.lie != nil {
		data = l.lie(data)
	}
	code, stdin := python.CallProgram(python.Call{Name: name, Source: l.sources[name], Entry: name, Data: data})
	s := l.house.start(kernel.OneShot)
	defer s.Kill()
	h := newHost(l.house.t, s)
	h.answer = func(e kernel.Event) any { return l.answer(e) }
	o := s.try(kernel.Program{Code: code, Stdin: stdin, Events: h.events})
	if o.err != nil {
		return failure("failed", o.err.Error())
	}
	if o.Exception != nil {
		return failure("failed", o.Exception.Type+": "+o.Exception.Message+"\n"+o.Exception.Traceback)
	}
	return result(o.Result)
}

func TestStoredFunctions(t *testing.T) {
	house := newHouse(t)
	l := &library{house: house, sources: map[string]string{
		"add":    "def add(a, b=2, *more, c=3, **named):\n    return [a, b, list(more), c, named]",
		"same":   "async def same(x):\n    import asyncio\n    await asyncio.sleep(0)\n    return x",
		"kind":   "def kind(x):\n    return type(x).__name__",
		"runs":   "import asyncio\nasync def go(): return 5\ndef runs():\n    return asyncio.run(go())",
		"wraps":  "import functools\ndef twice(f):\n    @functools.wraps(f)\n    def g(*a): return 2 * f(*a)\n    return g\n@twice\ndef wraps(x):\n    return x",
		"gen":    "def gen():\n    yield 1",
		"agen":   "async def agen():\n    yield 1",
		"own":    "class Own: pass\ndef own():\n    return Own()",
		"fails":  "def fails():\n    x = 1\n    return x / 0",
		"nested": "async def nested(x):\n    return [await functions.same(x), functions.add.sync(x)]",
		"big":    "def big():\n    return 'x' * 5_000_000",
		"huge":   "def huge():\n    return 'x' * 20_000_000",
		"named":  "def named(): return __name__, __file__",
		"none":   "other = 1",
		"shadow": "primitives = 1\ndef shadow(): return repr(primitives)",
		"large":  "def large(): return list(range(300_000))",
	}}
	s := house.session()
	h := newHost(t, s)
	h.answer = l.answer
	s.must("class Mine:\n    pass\ndef mine(): pass\nimport datetime, decimal, fractions")
	for code, want := range map[string]string{
		"await functions.add(1)":                    `[1,2,[],3,{}]`,
		"await functions.add(1, 2, 3, 4, c=5, d=6)": `[1,2,[3,4],5,{"d":6}]`,
		"functions.add.sync(1)":                     `[1,2,[],3,{}]`,
		"await functions.same(datetime.date(2020, 1, 2)) == datetime.date(2020, 1, 2)": "true",
		"await functions.kind((1, 2))":                  `"tuple"`,
		"type(await functions.same((1, [2]))).__name__": `"tuple"`,
		"[await functions.kind(v) for v in ([1], {'a': 1}, {1: 2}, 1.5, None, {1}, b'x', float('inf'), 10**5000)]": `["list","dict","dict","float","NoneType","set","bytes","float","int"]`,
		"await functions.same({1: float('inf'), 'k': 10**5000}) == {1: float('inf'), 'k': 10**5000}":               "true",
		"await functions.runs()":       "5",
		"await functions.wraps(4)":     "8",
		"await functions.nested(1)":    "[1,[1,2,[],3,{}]]",
		"len(await functions.big())":   "5000000",
		"len(await functions.large())": "300000",
		"await functions.named()":      `["functions.named","<function named>"]`,
		"await functions.shadow()":     `"<primitives>"`,
	} {
		h.expect(s, code, want)
	}
	for code, part := range map[string]string{
		"await functions.same(Mine())":           "the class Mine is defined in the code itself",
		"await functions.same([1, mine])":        "the function mine is defined in the code itself",
		"await functions.same(lambda: 1)":        "the function <lambda> is defined in the code itself",
		"await functions.same(open(0))":          "cannot be pickled",
		"await functions.gen()":                  "gives a generator",
		"await functions.agen()":                 "gives a generator",
		"await functions.own()":                  "the class Own is defined in the code itself",
		"await functions.huge()":                 "the result of functions.huge take",
		"await functions.same('x' * (17 << 20))": "the arguments of functions.same take",
		"await functions.fails()":                "line 3, in fails",
		"await functions.none()":                 "defines no none that can be called",
		"await functions.add()":                  "missing 1 required positional argument",
	} {
		o := h.run(s, code)
		if e := o.exception(); !strings.Contains(e.Message, part) {
			t.Errorf("%q: %s: %s, want Message with %v", code, e.Type, e.Message, part)
		}
	}
	if o := h.run(s, "await functions.fails()"); !strings.Contains(o.exception().Message, "return x / 0") {
		t.Error(o.exception().Message)
	}
	if e := h.run(s, "await functions.add()").exception(); strings.Contains(e.Message, "invoke") || strings.Contains(e.Message, "cell") {
		t.Errorf("what nobody wrote is shown: %s", e.Message)
	}
	l.lie = func(data json.RawMessage) json.RawMessage {
		return json.RawMessage(strings.Replace(string(data), `"python":"3.`, `"python":"2.`, 1))
	}
	if e := h.run(s, "await functions.same({1})").exception(); !strings.Contains(e.Message, "pickled by Python 2.") {
		t.Error(e.Message)
	}
	// What cannot be imported on the other side is named.
	l.lie = nil
	s.must("import sys, types\nm = types.ModuleType('only_here')\nexec('class Thing: pass', m.__dict__)\nm.Thing.__module__ = 'only_here'\nsys.modules['only_here'] = m")
	if e := h.run(s, "await functions.same(m.Thing())").exception(); !strings.Contains(e.Message, "No module named 'only_here'") {
		t.Error(fmt.Sprint(e.Message))
	}
}
