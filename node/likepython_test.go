package node_test

import (
	"testing"

	"github.com/locusrun/locus/surfaces"
)

// What code sees in a session is what Python itself would show it.

func TestRecursiveContainers(t *testing.T) {
	w := fresh(t)
	for code, want := range map[string]string{
		"a = []; a.append(a); a":                      `"[[...]]"`,
		"d = {}; d['d'] = d; d":                       `"{'d': {...}}"`,
		"b = [1]; b.append((b, {'again': b})); b":     `"[1, ([...], {'again': [...]})]"`,
		"c = []; c.append(c); [c, c]":                 `"[[[...]], [[...]]]"`,
		"x = [0]\nfor _ in range(5): x = [x]\n{1: x}": `"{1: [[[[[[0]]]]]]}"`,
	} {
		res := w.once(code)
		value(t, res, want)
		if len(res.Notice) != 0 {
			t.Errorf("%q: %v, want no notice", code, res.Notice)
		}
	}
}

func TestStringAnnotationsAreUnchanged(t *testing.T) {
	w := fresh(t)
	ok(t, w.keep("s", "from __future__ import annotations"))
	value(t, w.keep("s", `
def f(a: primitives, *b: primitives.x, c: exec = primitives) -> list[primitives]: ...
class C:
    primitives: eval
x: primitives = primitives
[f.__annotations__, C.__annotations__, __annotations__, type(x).__name__]`),
		`[{"a":"primitives","b":"primitives.x","c":"exec","return":"list[primitives]"},{"primitives":"eval"},{"x":"primitives"},"Primitives"]`)
	value(t, w.once(`
text = "from __future__ import annotations\ndef g(a: primitives): return type(primitives).__name__"
exec(text)
[g.__annotations__, g(1)]`), `[{"a":"primitives"},"Primitives"]`)
}

// The reported line is one of the program itself, even if the failure is in a module of its
// folder or in code that a library generated.
func TestExceptionLinesAreOfTheProgram(t *testing.T) {
	w := fresh(t)
	for code, line := range map[string]int{
		"from dataclasses import dataclass\n@dataclass(frozen=True)\nclass P: x: int\n\nP(1).x = 2": 5,
		"open('deep.py', 'w').write('\\n' * 30 + 'def f(): 1/0')\nimport deep\ndeep.f()":            3,
		"open('wrong.py', 'w').write('\\n' * 30 + 'def f(:')\nimport wrong":                         2,
		"def f():\n    exec('\\n' * 30 + '1/0')\nf()":                                               2,
		"\n\ncompile('a b', 'text', 'exec')":                                                        3,
		"\n\nx = (":                                                                                 3,
	} {
		if e := raised(t, w.once(code)); e.Line != line {
			t.Errorf("%q: line %d, want %d\n%s", code, e.Line, line, e.Traceback)
		}
	}
}

func raised(t *testing.T, res surfaces.Result) *surfaces.Exception {
	t.Helper()
	return code(t, res, surfaces.CodeException).Exception
}

// Programs that also run on other systems set the encoding of their output.
func TestTheEncodingOfOutputCanBeSet(t *testing.T) {
	w := fresh(t)
	for _, run := range []func(string) surfaces.Result{w.once, func(code string) surfaces.Result { return w.keep("s", code) }} {
		res := ok(t, run("import sys\nprint('a')\nsys.stdout.reconfigure(encoding='utf-8', errors='replace')\nsys.stderr.reconfigure(encoding='utf-8')\nprint('é\\udc80')\n[sys.stdout.seekable(), sys.stderr.seekable()]"))
		value(t, res, "[false,false]")
		if res.Stdout != "a\né?\n" {
			t.Errorf("got %s, want Stdout \"a\\né?\\n\"", show(res))
		}
	}
	if res := ok(t, w.keep("s", "print('\\udc80')")); res.Stdout != "\\udc80\n" {
		t.Errorf("got %s, want Stdout \"\\\\udc80\\n\"", show(res))
	}
}
