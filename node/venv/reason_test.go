package venv

import (
	"strings"
	"testing"
)

func TestWhyABuildFailed(t *testing.T) {
	for output, want := range map[string]string{
		"": "",
		"Resolved 1 package\nno space left on device\n": "no space left on device",
		"Using CPython 3.11.7\nerror: No solution found when resolving dependencies\n  cause: Because nothing was not found and your project depends on nothing, we can conclude that\n         it is unsatisfiable.\nhint: look\n  for another\n": "No solution found when resolving dependencies: Because nothing was not found and your project depends on nothing, we can conclude that: it is unsatisfiable",
		"  × No solution found:\n  ╰─▶ Because there is no version of a==9\n      hint: try b\n":                                                                                                                                                   "No solution found: Because there is no version of a==9",
		"  × Failed to build `a`\n  ├─▶ The build backend returned an error\n  ╰─▶ Call to `b` failed\n\n      [stderr]\n      Traceback (most recent call last):\n":                                                                               "Failed to build `a`: The build backend returned an error: Call to `b` failed",
	} {
		if got := why(output); got != want {
			t.Errorf("%q:\n%q, want\n%q", output, got, want)
		}
	}
	if got := why("error: " + strings.Repeat("é", maxWhy)); len(got) > maxWhy+5 || !strings.HasSuffix(got, "é…") {
		t.Errorf("%d bytes", len(got))
	}
}
