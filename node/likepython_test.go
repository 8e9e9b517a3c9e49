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
