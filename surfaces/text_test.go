package surfaces

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// TestCleanName: a cleaned name is allowed, and an allowed name stays as it is.
func TestCleanName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z/ \n]{0,90}`)).Draw(t, "name")
		clean := cleanName(name)
		if clean != "" && nameFault(clean) != "" {
			t.Fatalf("%q became %q, which %s", name, clean, nameFault(clean))
		}
		if nameFault(name) == "" && clean != strings.TrimSpace(name) {
			t.Fatalf("%q is allowed but became %q", name, clean)
		}
	})
}

func TestNameFault(t *testing.T) {
	for name, want := range map[string]string{
		"sales 2026_Q1-v1.2":          "",
		"é":                           "",
		"":                            "is blank",
		" \t":                         "is blank",
		"a/b\\c/":                     `not '/' '\\'`,
		"a\nb":                        `not '\n'`,
		strings.Repeat("é", 64):       "",
		strings.Repeat("é", 65):       "has 65 characters",
		"🙂":                           "not '🙂'",
		"e\u0301":                     `'\u0301'`,
		"a\xffb":                      "may only have",
		"1" + strings.Repeat(" ", 63): "",
	} {
		got := nameFault(name)
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestLoneSurrogate(t *testing.T) {
	for raw, want := range map[string]bool{
		`"\ud83d\ude00"`:       false,
		`"\uD83D\uDE00\uD83D"`: true,
		`"\ude00"`:             true,
		`"\ud83dx"`:            true,
		`"\ud83d\n"`:           true,
		`"\ud83d\ud83d"`:       true,
		`"\ud83d\u0041"`:       true,
		`"\\ud83d"`:            false,
		`"\\\ud83d"`:           true,
		`"\ufffd"`:             false,
		`""`:                   false,
	} {
		if got := loneSurrogate(json.RawMessage(raw)); got != want {
			t.Errorf("%s: %v", raw, got)
		}
	}
}

// TestQuoteIsBounded: whatever is quoted is valid Unicode and short.
func TestQuoteIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + strings.Repeat("é", rapid.IntRange(0, 400).Draw(t, "more"))
		for _, q := range []string{quote(s), quoteRaw(json.RawMessage(s))} {
			if !utf8.ValidString(q) || len(q) > maxQuoted+len("…") {
				t.Fatalf("%d bytes: %q", len(q), q)
			}
		}
	})
}

func TestCut(t *testing.T) {
	for limit, want := range map[int]string{0: "", 1: "a", 2: "a", 3: "aé", 4: "aéb", 9: "aéb"} {
		if got := cut("aéb", limit); got != want {
			t.Errorf("%d: %q, want %q", limit, got, want)
		}
	}
}

func TestList(t *testing.T) {
	many := strings.Split(strings.Repeat("x,", maxListed+5), ",")[:maxListed+5]
	for want, items := range map[string][]string{"": nil, "a": {"a"}, "a or b": {"a", "b"}, "a, b or c": {"a", "b", "c"}} {
		if got := list(items, "or"); got != want {
			t.Errorf("%v: %q", items, got)
		}
	}
	if got := list(many, "and"); !strings.HasSuffix(got, " and 5 more") {
		t.Errorf("long list: %q", got)
	}
	if got := enumerate(many, "and"); strings.Count(got, "x") != maxListed+5 {
		t.Errorf("whole list: %q", got)
	}
}
