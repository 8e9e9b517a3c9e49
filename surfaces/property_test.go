package surfaces

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// judge validates the arguments of any tool.
func judge(tool string, args map[string]json.RawMessage, v View) *Refusal {
	if tool == ToolExecute {
		_, r := resolveArgs(args, v)
		return r
	}
	_, r := selectArgs(args, tool, v)
	return r
}

// TestFixMends is the main promise of validation, for every tool: a fix makes the call
// valid, a suggestion that is followed in any of the ways that it offers makes the
// call valid, and neither names more or less than what has to change.
func TestFixMends(t *testing.T) {
	for _, tool := range Tools() {
		t.Run(tool.Name, func(t *testing.T) {
			seen := map[Code]int{}
			rapid.Check(t, func(t *rapid.T) {
				v, args := genView().Draw(t, "mesh"), genArgs(tool.Name, false).Draw(t, "args")
				before := maps.Clone(args)
				r := judge(tool.Name, args, v)
				if again := judge(tool.Name, args, v); !reflect.DeepEqual(r, again) {
					t.Fatalf("two answers to one call:\n%+v\n%+v", r, again)
				}
				if !reflect.DeepEqual(args, before) {
					t.Fatal("the arguments were written to")
				}
				if r == nil {
					return
				}
				seen[r.Code]++
				checkWords(t, tool.Name, args, r)
				checkFix(t, tool.Name, args, v, r)
				checkFollowing(t, tool.Name, args, v, r)
			})
			t.Logf("refusals seen: %v", seen)
		})
	}
}

func checkFix(t rapid.TB, tool string, args map[string]json.RawMessage, v View, r *Refusal) {
	if r.Fix == nil {
		return
	}
	fixed, err := r.Fix.Apply(args)
	if err != nil {
		t.Fatal(err)
	}
	if again := judge(tool, fixed, v); again != nil {
		t.Fatalf("%s\n%s\nfix %+v leads to\n%s", r.Message, r.Suggestion, *r.Fix, again.Message)
	}
	for _, name := range r.Fix.Drop {
		if _, given := args[name]; !given {
			t.Fatalf("the fix drops %s, which was not given", name)
		}
	}
	for name, v := range r.Fix.Set {
		raw, _ := json.Marshal(v)
		if string(raw) == string(args[name]) {
			t.Fatalf("the fix sets %s to what it was", name)
		}
	}
	if len(r.Fix.Drop)+len(r.Fix.Set) == 0 {
		t.Fatal("the fix is empty")
	}
}

// checkWords compares the words of a suggestion with its plan.
func checkWords(t rapid.TB, tool string, args map[string]json.RawMessage, r *Refusal) {
	if r.Message == "" || r.Suggestion == "" || !slices.Contains(Precedence(), r.Code) {
		t.Fatalf("incomplete refusal: %+v", r)
	}
	says := func(name string) bool {
		if name == "" {
			return true
		}
		return hasWord(r.Suggestion, name)
	}
	want := slices.Clone(r.plan.drop)
	want = slices.AppendSeq(want, maps.Keys(r.plan.set))
	want = slices.AppendSeq(want, maps.Keys(r.plan.asks))
	for _, c := range r.plan.choices {
		for _, o := range c.options {
			for name, v := range o.set {
				if !gives(args, name, v) {
					want = append(want, name)
				}
			}
		}
	}
	for _, name := range want {
		if !says(name) {
			t.Fatalf("the suggestion does not name %s: %s", name, r.Suggestion)
		}
	}
	for name, raw := range args {
		if unchanged := "et " + name + " to " + string(raw); strings.Contains(r.Suggestion, unchanged+",") || strings.Contains(r.Suggestion, unchanged+";") {
			t.Fatalf("the suggestion sets %s to what it is: %s", name, r.Suggestion)
		}
	}
	if (r.Fix != nil) != r.plan.mechanical() {
		t.Fatal("fix and plan differ")
	}
	for name := range args {
		remote := slices.Contains(r.plan.codes, CodeRemoteWithSession) || slices.Contains(r.plan.codes, CodeUnsupportedSurface) || slices.Contains(r.plan.codes, CodeMachineNotLinked)
		if touched := slices.Contains(want, name) || choiceDrops(r, name); !touched && !remote && len(name) > 4 && says(name) && name != "language" {
			t.Fatalf("the suggestion names %s, which stays as it is: %s\n%s", name, r.Message, r.Suggestion)
		}
	}
}

// gives reports whether an argument has a value already, also as 2.0 for 2.
func gives(args map[string]json.RawMessage, name string, v any) bool {
	raw, _ := json.Marshal(v)
	var want, got any
	return json.Unmarshal(raw, &want) == nil && json.Unmarshal(args[name], &got) == nil && want == got
}

// hasWord reports whether a text has a word by itself, not as a part of another.
func hasWord(text, word string) bool {
	letter := func(c byte) bool {
		return c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
	}
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return false
		}
		start, end := from+i, from+i+len(word)
		if (start == 0 || !letter(text[start-1])) && (end == len(text) || !letter(text[end])) {
			return true
		}
		from = start + 1
	}
}

func choiceDrops(r *Refusal, name string) bool {
	return slices.ContainsFunc(r.plan.choices, func(c choice) bool { return c.touches(name) })
}

// goodValues are what a caller might answer where only the caller can know.
var goodValues = map[string]string{
	"code": `"2"`, "session_name": `"brand new"`, "session_id": `12345`, "idempotency_key": `"k2"`, "new_name": `"brand new 2"`,
	"stdin": `"x"`, "thought": `"y"`, "primitives": `["fs.ls"]`, "primitives_limit": `7`,
	"files": `[{"name":"a","text":"b"}]`,
}

// checkFollowing follows the suggestion in every way that it offers.
func checkFollowing(t rapid.TB, tool string, args map[string]json.RawMessage, v View, r *Refusal) {
	p := r.plan
	for _, w := range p.prerequisites {
		if !closes(&v, w) {
			return // nothing that a test can do: the only session is the one to copy
		}
	}
	base, err := Fix{Drop: p.drop, Set: p.set}.Apply(args)
	if err != nil {
		t.Fatal(err)
	}
	for name := range p.asks {
		good, ok := goodValues[name]
		if !ok {
			t.Fatalf("asks for %s, which cannot be answered: %s", name, r.Suggestion)
		}
		base[name] = json.RawMessage(good)
	}
	for i := range max(1, len(p.choices)) {
		for j := range options(p, i) {
			chosen := maps.Clone(base)
			for k, c := range p.choices {
				o := c.options[0]
				if k == i {
					o = c.options[j]
				}
				if chosen, err = (Fix{Drop: o.drop, Set: o.set}).Apply(chosen); err != nil {
					t.Fatal(err)
				}
			}
			if again := judge(tool, chosen, v); again != nil {
				t.Fatalf("%s\n%s\noption %d of choice %d leads to %v:\n%s", r.Message, r.Suggestion, j, i, chosen, again.Message)
			}
		}
	}
}

func options(p *plan, i int) int {
	if i >= len(p.choices) {
		return 1
	}
	return len(p.choices[i].options)
}

// closes does what a suggestion asks for outside the call: it ends the session
// whose description the words end with.
func closes(v *View, words string) bool {
	for i, s := range v.Sessions {
		if d := describe(s); len(words) > len(d) && words[len(words)-len(d):] == d {
			v.Sessions = slices.Delete(slices.Clone(v.Sessions), i, i+1)
			return true
		}
	}
	return false
}
