package surfaces

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// refuseUnknown notes the arguments that the tool does not have. A near-miss for
// an argument that was not given is taken for it.
func refuseUnknown(d *draft) {
	var unknown []string
	for name := range d.orig {
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
		put(&d.mended, name, true)
	}
	raw := maps.Clone(d.orig)
	for near, from := range wanted {
		same, twice := d.twice[from[0]]
		if len(from) > 1 || d.given(near) || isNull(d.orig[from[0]]) || (twice && !same) {
			continue
		}
		raw[near] = d.orig[from[0]]
		put(&d.mended, near, true)
		put(&d.renamed, near, from[0])
	}
	d.raw = raw
}

// nearArgument gives the argument that an unknown name was most likely meant to be.
func (d *draft) nearArgument(name string) (string, bool) {
	plain := fold(name[:min(len(name), maxNearWord+1)])
	if plain == "timeout_ms" {
		return "", false // another unit: the value must not be taken over
	}
	if alias, ok := argumentAliases[plain]; ok && d.tool.argument(alias) != nil {
		if alias == "session_name" && jsonKind(d.orig[name]) == "a number" {
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

// decodeArguments gives every argument its type, and mends or sets aside those
// that cannot be taken.
func decodeArguments(d *draft) {
	for i := range d.tool.Arguments {
		d.decode(&d.tool.Arguments[i])
	}
}

func (d *draft) decode(a *Argument) {
	if !d.given(a.Name) {
		if _, moved := d.vals[a.Name]; a.Required && !moved {
			d.fault(CodeInvalidArgument, a.Name+" is missing", a.Name)
			d.unusable(a, a.expects())
		}
		return
	}
	raw := d.raw[a.Name]
	same, twice := d.twice[a.Name]
	if twice {
		d.fault(CodeInvalidArgument, a.Name+" is given more than once", a.Name)
		if !same {
			d.unusable(a, a.expects())
			d.note(a.Name + " came with different values: give it once")
			return
		}
	}
	v, p := read(a, raw)
	if p == nil {
		d.vals[a.Name] = v
		return
	}
	d.fault(CodeInvalidArgument, p.message, a.Name)
	switch {
	case p.mend == mendSet:
		d.set(a.Name, p.value)
		if p.say != "" {
			put(&d.texts, a.Name, p.say)
		}
	case p.mend == mendDrop && a.Required:
		d.unusable(a, a.expects())
	case p.mend == mendDrop:
		d.drop(a.Name)
	case a.Name == "session_id" && d.nameInPlaceOfID(raw):
	default:
		d.unusable(a, p.text)
	}
}

// unusable sets an argument aside for the stage that settles it, or leaves it to
// the caller.
func (d *draft) unusable(a *Argument, what string) {
	put(&d.mended, a.Name, true)
	switch {
	case a.later:
		put(&d.bad, a.Name, true)
	case a.Kind == KindBoolean:
		d.offer(a.Name, []any{false, true})
	case a.Enum != nil:
		d.offer(a.Name, anyOf(a.Enum))
	default:
		d.ask(a.Name, what)
	}
}

// nameInPlaceOfID mends a session's name that was given as session_id.
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
