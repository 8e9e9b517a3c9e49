package surfaces

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"
)

// precedence orders the codes of the law: when several faults meet, the refusal
// carries the code that comes first. Faults that show only once another was mended
// come after all those that the call had as it was received.
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

// Precedence lists the codes of the law, the one that wins first.
func Precedence() []Code { return slices.Clone(precedence) }

// plan is a suggestion in a form that can be carried out.
type plan struct {
	drop    []string
	set     map[string]any
	choices []choice
	asks    map[string]string
	blocked []string
	codes   []Code // of all faults, in the order of their messages
}

// refusal composes the one refusal of a draft with faults.
func (d *draft) refusal() *Refusal {
	d.askForTheRest()
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
		Suggestion: d.suggestion(p), At: Echo(d.orig), plan: p,
	}
	if p.mechanical() {
		r.Fix = &Fix{Drop: p.drop, Set: p.set}
	}
	return r
}

// askForTheRest leaves to the caller whatever no stage could settle.
func (d *draft) askForTheRest() {
	for i := range d.tool.Arguments {
		if a := &d.tool.Arguments[i]; d.bad[a.Name] {
			d.ask(a.Name, a.expects())
		}
	}
}

func (p *plan) mechanical() bool {
	return len(p.choices) == 0 && len(p.asks) == 0 && len(p.blocked) == 0
}

// plan is the difference between what was received and what the law made of it.
func (d *draft) plan() *plan {
	p := &plan{drop: []string{}, set: map[string]any{}, choices: d.choices, asks: d.asks, blocked: d.blocked}
	for name, raw := range d.orig {
		a := d.tool.argument(name)
		if _, kept := d.vals[name]; a == nil || (!kept && !isNull(raw) && !d.open(name)) {
			p.drop = append(p.drop, name)
		}
	}
	slices.Sort(p.drop)
	for name, v := range d.vals {
		if _, again := d.twice[name]; !d.open(name) && (again || !d.received(name, v)) {
			p.set[name] = v
		}
	}
	return p
}

// open reports whether the caller has to settle an argument.
func (d *draft) open(name string) bool {
	if _, ok := d.asks[name]; ok {
		return true
	}
	return slices.ContainsFunc(d.choices, func(c choice) bool { return c.touches(name) })
}

// received reports whether the caller gave just this value.
func (d *draft) received(name string, v any) bool {
	raw, ok := d.orig[name]
	if !ok || isNull(raw) {
		return false
	}
	got, p := read(d.tool.argument(name), raw)
	return p == nil && got == v
}

// suggestion says the plan in words: first what must be done outside the call,
// then each argument to drop, change or add, then what is good to know.
func (d *draft) suggestion(p *plan) string {
	clauses := slices.Clone(p.blocked)
	drop := slices.Clone(p.drop)
	for i := range d.tool.Arguments {
		name := d.tool.Arguments[i].Name
		v, set := p.set[name]
		wrong, renamed := d.renamed[name]
		text, long := d.texts[name]
		switch what, asked := p.asks[name]; {
		case asked:
			clauses = append(clauses, d.verb(name)+" "+what)
		case set && renamed && sameValue(d.orig[wrong], v):
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
		clauses = slices.Insert(clauses, len(p.blocked), "drop "+enumerate(shown(drop), "and"))
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

// shown writes the names of arguments, quoted where they are not plain words.
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

// sentence gives text a capital and a full stop.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	first := []rune(text[:1])
	return string(unicode.ToUpper(first[0])) + text[1:] + "."
}
