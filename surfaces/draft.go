package surfaces

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// draft is a call on its way through the law. Each stage looks at the arguments
// as the stages before it have mended them, notes what is wrong, and mends that
// too. So whatever leaves the last stage is valid, and the difference between
// what came and what leaves is the one mend for all faults at once.
type draft struct {
	tool  *Tool
	view  *View
	orig  map[string]json.RawMessage // as received; never written to
	raw   map[string]json.RawMessage // with misspelt names put right
	twice map[string]bool            // names that came twice: whether with one value

	vals   map[string]any  // usable values: string, int, float64, bool or offers
	bad    map[string]bool // given, but unusable, and no stage has settled it yet
	mended map[string]bool // touched by a mend

	faults  []fault
	choices []choice
	asks    map[string]string // only the caller knows the value: what to give
	blocked []string          // what must be done outside the call first
	notes   []string
	renamed map[string]string // right name -> wrong name
	texts   map[string]string // how to say a value that is too long to show

	stages []stage
	next   int

	session *SessionRef
	linked  *MachineItem
}

type stage func(*draft)

// fault is one thing that is wrong. After says that it shows only once another
// fault was mended.
type fault struct {
	code    Code
	message string
	after   bool
}

// option is one of several ways to settle a choice: the arguments to give and
// those to leave out.
type option struct {
	set  map[string]any
	drop []string
}

// choice is a mend that the caller has to choose. Each option, together with the
// mends of the rest of the draft, makes the call valid.
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
		tool: tool, view: v, orig: args, raw: args, twice: twice,
		vals: make(map[string]any, len(args)), stages: stages,
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
	c.vals, c.bad, c.mended, c.asks = maps.Clone(d.vals), maps.Clone(d.bad), maps.Clone(d.mended), maps.Clone(d.asks)
	c.renamed, c.texts = maps.Clone(d.renamed), maps.Clone(d.texts)
	c.faults = append([]fault(nil), d.faults...)
	c.choices = append([]choice(nil), d.choices...)
	c.blocked = append([]string(nil), d.blocked...)
	c.notes = append([]string(nil), d.notes...)
	return &c
}

// fault notes what is wrong with the named arguments.
func (d *draft) fault(code Code, message string, arguments ...string) {
	f := fault{code: code, message: message}
	for _, a := range arguments {
		f.after = f.after || d.mended[a]
	}
	d.faults = append(d.faults, f)
}

func put[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = make(map[string]V)
	}
	(*m)[key] = v
}

// set mends an argument by giving it a value.
func (d *draft) set(name string, v any) {
	d.vals[name] = v
	delete(d.bad, name)
	delete(d.asks, name)
	put(&d.mended, name, true)
}

// drop mends arguments by leaving them out.
func (d *draft) drop(names ...string) {
	for _, name := range names {
		delete(d.vals, name)
		delete(d.bad, name)
		delete(d.asks, name)
		put(&d.mended, name, true)
	}
}

// ask leaves an argument to the caller.
func (d *draft) ask(name, what string) {
	d.drop(name)
	put(&d.asks, name, what)
}

func (d *draft) note(text string) { d.notes = append(d.notes, text) }

// show writes an argument and its value for people.
func (d *draft) show(name string) string {
	if v, ok := d.vals[name]; ok {
		return name + " " + quote(v)
	}
	return name + " " + quoteRaw(d.raw[name])
}

// given reports whether the caller gave an argument, usable or not.
func (d *draft) given(name string) bool {
	raw, ok := d.raw[name]
	return ok && !isNull(raw)
}

// present reports whether an argument still stands, usable or not.
func (d *draft) present(name string) bool {
	_, ok := d.vals[name]
	return ok || d.bad[name]
}

func (d *draft) text(name string) (string, bool) {
	s, ok := d.vals[name].(string)
	return s, ok
}

func (d *draft) integer(name string) (int, bool) {
	n, ok := d.vals[name].(int)
	return n, ok
}

func (d *draft) truth(name string) bool {
	b, _ := d.vals[name].(bool)
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

// venv gives the environment that the call names; 0 for none.
func (d *draft) venv() int {
	n, _ := d.integer("venv_id")
	return n
}

// choose settles an argument whose right value depends on the caller. It tries
// each candidate on the rest of the law, keeps those that need the least further
// mending and need the same, and goes on with the first of them. When one remains
// and single is true, that one is the mend; else the caller is given the list.
func (d *draft) choose(name string, candidates []any, single bool) {
	if len(candidates) == 0 {
		d.ask(name, d.tool.argument(name).expects())
		d.blocked = append(d.blocked, "wait until this mesh has a "+name+" to choose")
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
		case t.vals[name] != c:
			continue
		case best == nil || t.cost() < best.cost():
			best, kept = t, []any{c}
		case t.cost() == best.cost() && alike(t, best, name):
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

// offer gives the caller a list of values for an argument, and goes on with the
// first.
func (d *draft) offer(name string, values []any) {
	d.set(name, values[0])
	ch := choice{argument: name, text: d.verb(name) + " " + oneOf(quoteAll(values))}
	for _, v := range values {
		ch.options = append(ch.options, option{set: map[string]any{name: v}})
	}
	d.choices = append(d.choices, ch)
}

// cost ranks drafts by how much mending they need; what must be done outside the
// call weighs most.
func (d *draft) cost() int { return len(d.faults) + 1000*len(d.blocked) }

// alike reports whether two drafts were mended in the same way but for one
// argument.
func alike(a, b *draft, but string) bool {
	return sameExcept(a.vals, b.vals, but) && reflect.DeepEqual(a.choices, b.choices) &&
		maps.Equal(a.asks, b.asks) && strings.Join(a.blocked, "\n") == strings.Join(b.blocked, "\n")
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

// verb begins the clause that gives an argument a value.
func (d *draft) verb(name string) string {
	if raw, ok := d.orig[name]; ok && !isNull(raw) {
		return "set " + name + " to"
	}
	return "add " + name + ":"
}
