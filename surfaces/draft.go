package surfaces

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// draft is a call under validation. Each stage sees the arguments as corrected by the stages
// before it, reports what is still wrong, and corrects that too. So the draft is valid after
// the last stage, and its difference to the arguments as received corrects all faults at
// once.
type draft struct {
	tool       *Tool
	view       *View
	received   map[string]json.RawMessage // as received; never written to
	args       map[string]json.RawMessage // the same with misspelt names corrected
	duplicates map[string]bool            // names that came more than once -> always with the same value

	values    map[string]any  // decoded values, see read
	unusable  map[string]bool // given with an unusable value that no stage has corrected yet
	corrected map[string]bool // changed by a correction

	faults        []fault
	choices       []choice
	asks          map[string]string // arguments left to the caller -> the values they take
	prerequisites []string          // what must be done before the call
	notes         []string
	renamed       map[string]string // right name -> wrong name
	phrases       map[string]string // description of a set value that is too long to show

	stages []stage
	next   int

	session *SessionRef
	linked  *MachineItem
}

type stage func(*draft)

// fault is one fault of a call. after marks one that appears only once another fault is
// corrected.
type fault struct {
	code    Code
	message string
	after   bool
}

// option is one alternative of a choice: the arguments to set and those to drop.
type option struct {
	set  map[string]any
	drop []string
}

// choice is a correction among which the caller has to choose. Each option, together with
// the other corrections of the draft, makes the call valid.
type choice struct {
	argument string // orders the suggestion
	text     string
	options  []option
}

func (c choice) touches(name string) bool {
	for _, o := range c.options {
		if _, ok := o.set[name]; ok || slices.Contains(o.drop, name) {
			return true
		}
	}
	return false
}

func newDraft(tool *Tool, args map[string]json.RawMessage, twice map[string]bool, v *View, stages []stage) *draft {
	return &draft{
		tool: tool, view: v, received: args, args: args, duplicates: twice,
		values: make(map[string]any, len(args)), stages: stages,
	}
}

func (d *draft) run() {
	for d.next < len(d.stages) {
		s := d.stages[d.next]
		d.next++
		s(d)
	}
}

func (d *draft) clone() *draft {
	c := *d
	c.values, c.unusable, c.corrected, c.asks = maps.Clone(d.values), maps.Clone(d.unusable), maps.Clone(d.corrected), maps.Clone(d.asks)
	c.renamed, c.phrases = maps.Clone(d.renamed), maps.Clone(d.phrases)
	c.faults = append([]fault(nil), d.faults...)
	c.choices = append([]choice(nil), d.choices...)
	c.prerequisites = append([]string(nil), d.prerequisites...)
	c.notes = append([]string(nil), d.notes...)
	return &c
}

// fault reports a fault of the named arguments.
func (d *draft) fault(code Code, message string, arguments ...string) {
	f := fault{code: code, message: message}
	for _, a := range arguments {
		f.after = f.after || d.corrected[a]
	}
	d.faults = append(d.faults, f)
}

func put[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = make(map[string]V)
	}
	(*m)[key] = v
}

// set corrects an argument by giving it a value.
func (d *draft) set(name string, v any) {
	d.values[name] = v
	delete(d.unusable, name)
	delete(d.asks, name)
	put(&d.corrected, name, true)
}

// drop corrects arguments by removing them.
func (d *draft) drop(names ...string) {
	for _, name := range names {
		delete(d.values, name)
		delete(d.unusable, name)
		delete(d.asks, name)
		put(&d.corrected, name, true)
	}
}

// askFor leaves the value of an argument to the caller; what describes the values it takes.
func (d *draft) askFor(name, what string) {
	d.drop(name)
	put(&d.asks, name, what)
}

func (d *draft) note(text string) { d.notes = append(d.notes, text) }

// describeArgument returns an argument with its value, for a message.
func (d *draft) describeArgument(name string) string {
	if v, ok := d.values[name]; ok {
		return name + " " + quote(v)
	}
	return name + " " + quoteRaw(d.args[name])
}

// given reports whether the caller gave an argument, with a usable value or not.
func (d *draft) given(name string) bool {
	raw, ok := d.args[name]
	return ok && !isNull(raw)
}

// present reports whether the draft still has an argument, with a usable value or not.
func (d *draft) present(name string) bool {
	_, ok := d.values[name]
	return ok || d.unusable[name]
}

func (d *draft) text(name string) (string, bool) {
	s, ok := d.values[name].(string)
	return s, ok
}

func (d *draft) integer(name string) (int, bool) {
	n, ok := d.values[name].(int)
	return n, ok
}

func (d *draft) boolean(name string) bool {
	b, _ := d.values[name].(bool)
	return b
}

func (d *draft) language() Language {
	s, _ := d.text("language")
	return Language(s)
}

func (d *draft) mode() StateMode {
	if s, ok := d.text("state_mode"); ok {
		return StateMode(s)
	}
	return Stateless
}

func (d *draft) place() Place {
	if s, ok := d.text("surface"); ok {
		return Place(s)
	}
	return Local
}

// venv returns the environment that the call names; 0 for none.
func (d *draft) venv() int {
	n, _ := d.integer("venv_id")
	return n
}

// choose corrects an argument whose value only the caller can know. It runs the remaining
// stages with each candidate and keeps the candidates that need the fewest, and the same,
// further corrections. Validation goes on with the first of them. If only one is left and
// single is true, it is the correction; else the caller is offered the list.
func (d *draft) choose(name string, candidates []any, single bool) {
	if len(candidates) == 0 {
		d.askFor(name, d.tool.argument(name).expects())
		d.prerequisites = append(d.prerequisites, "wait until this mesh has a "+name+" to choose")
		return
	}
	if len(candidates) > maxListed {
		candidates = candidates[:maxListed]
	}
	var kept []any
	var best *draft
	for _, c := range candidates {
		t := d.clone()
		t.set(name, c)
		t.run()
		switch {
		case t.values[name] != c:
			continue
		case best == nil || t.corrections() < best.corrections():
			best, kept = t, []any{c}
		case t.corrections() == best.corrections() && sameCorrections(t, best, name):
			kept = append(kept, c)
		}
	}
	if best == nil {
		d.set(name, candidates[0])
		return
	}
	if len(kept) == 1 && single {
		d.set(name, kept[0])
		return
	}
	d.offer(name, kept)
}

// offer offers the caller a list of values for an argument; validation goes on with the
// first one.
func (d *draft) offer(name string, values []any) {
	d.set(name, values[0])
	ch := choice{argument: name, text: d.verb(name) + " " + oneOf(quoteAll(values))}
	for _, v := range values {
		ch.options = append(ch.options, option{set: map[string]any{name: v}})
	}
	d.choices = append(d.choices, ch)
}

// offersAll reports whether the caller was offered all n values that an argument could have, so
// that a list of them would only repeat the offer.
func (d *draft) offersAll(name string, n int) bool {
	return slices.ContainsFunc(d.choices, func(c choice) bool { return c.argument == name && len(c.options) == n })
}

// corrections counts the faults of a draft. Anything that must be done before the call
// weighs much more.
func (d *draft) corrections() int { return len(d.faults) + 1000*len(d.prerequisites) }

// sameCorrections reports whether two drafts were corrected in the same way, except for one
// argument.
func sameCorrections(a, b *draft, but string) bool {
	return sameExcept(a.values, b.values, but) && reflect.DeepEqual(a.choices, b.choices) &&
		maps.Equal(a.asks, b.asks) && strings.Join(a.prerequisites, "\n") == strings.Join(b.prerequisites, "\n")
}

func sameExcept(a, b map[string]any, but string) bool {
	for k, v := range a {
		if w, ok := b[k]; k != but && (!ok || v != w) {
			return false
		}
	}
	for k := range b {
		if _, ok := a[k]; k != but && !ok {
			return false
		}
	}
	return true
}

func oneOf(items []string) string {
	if len(items) < 3 {
		return list(items, "or")
	}
	return "one of " + list(items, "or")
}

// verb is the beginning of the clause that gives an argument a value.
func (d *draft) verb(name string) string {
	if raw, ok := d.received[name]; ok && !isNull(raw) {
		return "set " + name + " to"
	}
	return "add " + name + ":"
}
