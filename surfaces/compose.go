package surfaces

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"
)

// precedence orders the validation codes: a refusal of several faults carries the code that
// comes first here. Faults that appear only once another is corrected come after all faults
// of the call as received.
var precedence = []Code{
	CodeInvalidArgument,
	CodeUnsupportedLanguage,
	CodeUnsupportedStateMode,
	CodeRemoteWithSession,
	CodeUnsupportedSurface,
	CodeStatelessWithSession,
	CodeReadOnlyNoSession,
	CodeVenvWithShell,
	CodeVenvNotFound,
	CodeSessionMismatch,
	CodeSessionNotFound,
	CodeSessionLimit,
	CodeMachineWithLocal,
	CodeMachineNotLinked,
	CodeMachineRequired,
	CodeAtomicWithoutStateful,
}

// Precedence lists the validation codes, the one with the highest precedence first.
func Precedence() []Code { return slices.Clone(precedence) }

// plan is a suggestion in a form that a program can carry out.
type plan struct {
	drop          []string
	set           map[string]any
	choices       []choice
	asks          map[string]string
	prerequisites []string
	codes         []Code // of all faults, in the order of their messages
}

// refusal composes the refusal of a draft with faults.
func (d *draft) refusal() *Refusal {
	d.askForUnsettled()
	faults := slices.Clone(d.faults)
	slices.SortStableFunc(faults, func(a, b fault) int {
		if a.after != b.after {
			if b.after {
				return -1
			}
			return 1
		}
		return slices.Index(precedence, a.code) - slices.Index(precedence, b.code)
	})
	var messages []string
	for _, f := range faults {
		if !slices.Contains(messages, f.message) {
			messages = append(messages, f.message)
		}
	}
	p := d.plan()
	for _, f := range faults {
		p.codes = append(p.codes, f.code)
	}
	r := &Refusal{
		Code: faults[0].code, Message: strings.Join(messages, "; "),
		Suggestion: d.suggestion(p), At: Echo(d.received), plan: p,
	}
	if p.mechanical() {
		r.Fix = &Fix{Drop: p.drop, Set: p.set}
	}
	return r
}

// askForUnsettled leaves the arguments that no stage could correct to the caller.
func (d *draft) askForUnsettled() {
	for i := range d.tool.Arguments {
		if a := &d.tool.Arguments[i]; d.unusable[a.Name] {
			d.askFor(a.Name, a.expects())
		}
	}
}

func (p *plan) mechanical() bool {
	return len(p.choices) == 0 && len(p.asks) == 0 && len(p.prerequisites) == 0
}

// plan is the difference between the draft as received and the corrected one.
func (d *draft) plan() *plan {
	p := &plan{drop: []string{}, set: map[string]any{}, choices: d.choices, asks: d.asks, prerequisites: d.prerequisites}
	for name, raw := range d.received {
		a := d.tool.argument(name)
		if _, kept := d.values[name]; a == nil || (!kept && !isNull(raw) && !d.isOpen(name)) {
			p.drop = append(p.drop, name)
		}
	}
	slices.Sort(p.drop)
	for name, v := range d.values {
		if _, again := d.duplicates[name]; !d.isOpen(name) && (again || !d.isAsReceived(name, v)) {
			p.set[name] = v
		}
	}
	return p
}

// isOpen reports whether the caller has to choose the value of an argument.
func (d *draft) isOpen(name string) bool {
	if _, ok := d.asks[name]; ok {
		return true
	}
	return slices.ContainsFunc(d.choices, func(c choice) bool { return c.touches(name) })
}

// isAsReceived reports whether the caller gave exactly this value.
func (d *draft) isAsReceived(name string, v any) bool {
	raw, ok := d.received[name]
	if !ok || isNull(raw) {
		return false
	}
	got, p := read(d.tool.argument(name), raw)
	return p == nil && got == v
}

// suggestion puts the plan into words: first what must be done before the call, then the
// arguments to drop, change or add, then the notes.
func (d *draft) suggestion(p *plan) string {
	clauses := slices.Clone(p.prerequisites)
	drop := slices.Clone(p.drop)
	for i := range d.tool.Arguments {
		name := d.tool.Arguments[i].Name
		v, set := p.set[name]
		wrong, renamed := d.renamed[name]
		text, long := d.phrases[name]
		switch what, asked := p.asks[name]; {
		case asked:
			clauses = append(clauses, d.verb(name)+" "+what)
		case set && renamed && sameValue(d.received[wrong], v):
			clauses = append(clauses, "rename "+wrong+" to "+name)
			drop = slices.DeleteFunc(drop, func(s string) bool { return s == wrong })
		case set && long:
			clauses = append(clauses, d.verb(name)+" "+text)
		case set:
			clauses = append(clauses, d.verb(name)+" "+quote(v))
		}
		for _, c := range p.choices {
			if c.argument == name {
				clauses = append(clauses, c.text)
			}
		}
	}
	if len(drop) > 0 {
		clauses = slices.Insert(clauses, len(p.prerequisites), "drop "+enumerate(shown(drop), "and"))
	}
	sentences := []string{strings.Join(clauses, "; ")}
	for _, n := range d.notes {
		if n = sentence(n); !slices.Contains(sentences, n) {
			sentences = append(sentences, n)
		}
	}
	sentences[0] = sentence(sentences[0])
	return strings.Join(sentences, " ")
}

// shown returns the names of arguments, quoted where they are not plain words.
func shown(names []string) []string {
	out := slices.Clone(names)
	for i, name := range out {
		plain := name != "" && len(name) <= maxQuoted && strings.IndexFunc(name, func(r rune) bool {
			return r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
		}) < 0
		if !plain {
			out[i] = quote(name)
		}
	}
	return out
}

func sameValue(raw json.RawMessage, v any) bool {
	got, err := json.Marshal(v)
	return err == nil && string(got) == strings.TrimSpace(string(raw))
}

// sentence adds a capital and a full stop.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	first := []rune(text[:1])
	return string(unicode.ToUpper(first[0])) + text[1:] + "."
}
