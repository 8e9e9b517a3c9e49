package surfaces

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNearest(t *testing.T) {
	languages := names(Languages())
	rows := []struct {
		word string
		from []string
		want string
	}{
		{"pyhton", languages, "python"},
		{"PYTHON", languages, "python"},
		{" python ", languages, "python"},
		{"pythn", languages, "python"},
		{"powershel", languages, "powershell"},
		{"ruby", languages, ""},
		{"csh", languages, ""}, // as near to sh as to zsh
		{"", languages, ""},
		{strings.Repeat("python", 100), languages, ""},
		{"state-mode", []string{"state_mode"}, "state_mode"},
		{"stdni", []string{"stdin", "code"}, "stdin"},
		{"ab", []string{"ac"}, ""}, // too short to be sure
		{"xyz", nil, ""},
	}
	for _, row := range rows {
		got, ok := nearest(row.word, row.from)
		if ok != (row.want != "") || (ok && got != row.want) {
			t.Errorf("%q: %q %v, want %q", row.word, got, ok, row.want)
		}
	}
}

func TestNearestName(t *testing.T) {
	have := []string{"run 1", "sales 2026", "import"}
	for word, want := range map[string]string{
		"run 2": "", "Run 1": "run 1", "run-1": "run 1", "sales 2025": "", "slaes 2026": "sales 2026", "imports": "import",
	} {
		if got, ok := nearestName(word, have); ok != (want != "") || (ok && got != want) {
			t.Errorf("%q: %q %v, want %q", word, got, ok, want)
		}
	}
}

// TestAliases: each alias leads to something that exists, and hides nothing.
func TestAliases(t *testing.T) {
	known := map[string]bool{}
	for _, tool := range Tools() {
		for _, a := range tool.Arguments {
			known[a.Name] = true
		}
	}
	for alias, name := range argumentAliases {
		if !known[name] || known[alias] || fold(alias) != alias {
			t.Errorf("alias %s for %s", alias, name)
		}
	}
	for name, values := range valueAliases {
		a := toolByName[ToolExecute].argument(name)
		for alias, v := range values {
			if !slices.Contains(a.Enum, v) || slices.Contains(a.Enum, alias) || fold(alias) != alias {
				t.Errorf("alias %s for %s of %s", alias, v, name)
			}
		}
	}
}

// slowDistance is the definition, written as a recursion.
func slowDistance(a, b []rune) int {
	switch {
	case len(a) == 0:
		return len(b)
	case len(b) == 0:
		return len(a)
	}
	cost := 1
	if a[len(a)-1] == b[len(b)-1] {
		cost = 0
	}
	best := min(
		slowDistance(a[:len(a)-1], b)+1,
		slowDistance(a, b[:len(b)-1])+1,
		slowDistance(a[:len(a)-1], b[:len(b)-1])+cost,
	)
	if len(a) > 1 && len(b) > 1 && a[len(a)-1] == b[len(b)-2] && a[len(a)-2] == b[len(b)-1] {
		best = min(best, slowDistance(a[:len(a)-2], b[:len(b)-2])+1)
	}
	return best
}

func TestDistance(t *testing.T) {
	word := rapid.StringMatching(`[abc]{0,5}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := []rune(word.Draw(t, "a")), []rune(word.Draw(t, "b"))
		bound := rapid.IntRange(0, 6).Draw(t, "bound")
		want := min(slowDistance(a, b), bound+1)
		if got := distance(a, b, bound); got != want {
			t.Fatalf("%q to %q within %d: %d, want %d", string(a), string(b), bound, got, want)
		}
	})
}
