package surfaces

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// checkUnknown refuses the arguments that the tool does not have. One that is close to an
// argument that was not given is corrected to it.
func checkUnknown(d *draft) {
	var unknown []string
	for name := range d.received {
		if d.tool.argument(name) == nil {
			unknown = append(unknown, name)
		}
	}
	if unknown == nil {
		return
	}
	slices.Sort(unknown)
	wanted := make(map[string][]string) // argument -> the unknown ones near it
	for _, name := range unknown {
		near, ok := d.nearArgument(name)
		message := "unknown argument " + quote(name)
		if ok {
			message += fmt.Sprintf(" (did you mean %s?)", near)
			wanted[near] = append(wanted[near], name)
		}
		d.fault(CodeInvalidArgument, message, name)
		put(&d.corrected, name, true)
	}
	raw := maps.Clone(d.received)
	for near, from := range wanted {
		same, twice := d.duplicates[from[0]]
		if len(from) > 1 || d.given(near) || isNull(d.received[from[0]]) || (twice && !same) {
			continue
		}
		raw[near] = d.received[from[0]]
		put(&d.corrected, near, true)
		put(&d.renamed, near, from[0])
	}
	d.args = raw
}

// nearArgument returns the argument that an unknown name is most likely a misspelling of.
func (d *draft) nearArgument(name string) (string, bool) {
	plain := fold(name[:min(len(name), maxNearWord+1)])
	if plain == "timeout_ms" {
		return "", false // the unit differs, so the value must not be reused
	}
	if alias, ok := argumentAliases[plain]; ok && d.tool.argument(alias) != nil {
		if alias == "session_name" && jsonKind(d.received[name]) == "a number" {
			alias = "session_id"
		}
		return alias, true
	}
	known := make([]string, len(d.tool.Arguments))
	for i, a := range d.tool.Arguments {
		known[i] = a.Name
	}
	return nearest(name, known)
}

// decodeArguments decodes every argument, and corrects or sets aside unusable values.
func decodeArguments(d *draft) {
	for i := range d.tool.Arguments {
		d.decode(&d.tool.Arguments[i])
	}
}

func (d *draft) decode(a *Argument) {
	if !d.given(a.Name) {
		if _, moved := d.values[a.Name]; a.Required && !moved {
			d.fault(CodeInvalidArgument, a.Name+" is missing", a.Name)
			d.setAside(a, a.expects())
		}
		return
	}
	raw := d.args[a.Name]
	same, twice := d.duplicates[a.Name]
	if twice {
		d.fault(CodeInvalidArgument, a.Name+" is given more than once", a.Name)
		if !same {
			d.setAside(a, a.expects())
			d.note(a.Name + " came with different values: give it once")
			return
		}
	}
	v, p := read(a, raw)
	if p == nil {
		d.values[a.Name] = v
		return
	}
	d.fault(CodeInvalidArgument, p.message, a.Name)
	switch {
	case p.correction == setValue:
		d.set(a.Name, p.value)
		if p.phrase != "" {
			put(&d.phrases, a.Name, p.phrase)
		}
	case p.correction == dropArgument && a.Required:
		d.setAside(a, a.expects())
	case p.correction == dropArgument:
		d.drop(a.Name)
	case a.Name == "session_id" && d.nameInPlaceOfID(raw):
	default:
		d.setAside(a, p.expects)
	}
}

// setAside marks an argument as unusable if a later stage corrects it; else it leaves the
// value to the caller.
func (d *draft) setAside(a *Argument, what string) {
	put(&d.corrected, a.Name, true)
	switch {
	case a.deferred:
		put(&d.unusable, a.Name, true)
	case a.Kind == KindBoolean:
		d.offer(a.Name, []any{false, true})
	case a.Enum != nil:
		d.offer(a.Name, anyOf(a.Enum))
	default:
		d.askFor(a.Name, what)
	}
}

// nameInPlaceOfID corrects a session name that was given as session_id.
func (d *draft) nameInPlaceOfID(raw json.RawMessage) bool {
	a := d.tool.argument("session_name")
	if a == nil || d.given("session_name") || jsonKind(raw) != "a string" {
		return false
	}
	name, p := readString(a, raw)
	if p != nil {
		return false
	}
	if _, err := parseInteger(name.(string)); err == nil {
		return false
	}
	d.drop("session_id")
	d.set("session_name", name)
	return true
}
