package node_test

import (
	"testing"
)

// What code sees in a session is what Python itself would show it.

func TestContainersThatContainThemselves(t *testing.T) {
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
			t.Errorf("%q: %v", code, res.Notice)
		}
	}
}

func TestAnnotationsThatAreTextsStayAsTheyWereWritten(t *testing.T) {
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
