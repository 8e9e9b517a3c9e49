package surfaces

import (
	"fmt"
	"slices"
)

// judgeSurface settles whose machine is meant. A call for a surface that nothing
// serves goes to the mesh itself.
func judgeSurface(d *draft) {
	if d.bad["surface"] {
		d.choose("surface", d.usablePlaces(), true)
	}
	given, ok := d.text("surface")
	if ok && !slices.Contains(Places(), Place(given)) {
		d.fault(CodeUnsupportedSurface, "surface "+quote(given)+" is not known", "surface")
		d.notePlaces()
		if near, ok := nearestValue("surface", given, names(d.view.places())); ok {
			d.set("surface", near)
		} else {
			d.choose("surface", d.usablePlaces(), true)
		}
	}
	place := d.place()
	switch {
	case !d.view.ServesPlace(place):
		d.noteKept(d.remoteFault())
		d.fault(CodeUnsupportedSurface, "surface "+quote(place)+" is not served by this mesh", "surface")
		d.notePlaces()
		d.choose("surface", d.usablePlaces(), true)
	case place != Local && len(d.view.MachinesAt(place)) == 0 && !d.machineElsewhere():
		d.noteKept(d.remoteFault())
		message := "no machine is linked for surface " + quote(place)
		if m, ok := d.text("machine"); ok {
			message = "machine " + quote(m) + " is not linked, and " + message
		}
		d.fault(CodeMachineNotLinked, message, "surface", "machine")
		d.drop("machine")
		d.set("surface", string(Local))
	}
}

// usablePlaces lists the served places that have a machine to run a call.
func (d *draft) usablePlaces() []any {
	return anyOf(slices.DeleteFunc(d.view.places(), func(p Place) bool {
		return p != Local && len(d.view.MachinesAt(p)) == 0
	}))
}

func (d *draft) notePlaces() {
	d.note("this mesh serves the surfaces " + list(quoteAll(d.view.places()), "and"))
}

func anyOf[T ~string](values []T) []any {
	out := make([]any, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

// judgeLanguage settles the interpreter.
func judgeLanguage(d *draft) {
	given, ok := d.text("language")
	there, where, absent := d.view.LanguagesAt(d.place()), "this mesh serves", "is not served by this mesh"
	if ok && slices.Contains(there, Language(given)) && slices.Contains(Languages(), Language(given)) {
		return
	}
	if d.place() != Local && len(d.view.MachinesAt(d.place())) > 0 {
		where, absent = "the machines linked there have", "is on none of the machines linked there"
	}
	served := slices.DeleteFunc(slices.Clone(there), func(l Language) bool { return !slices.Contains(Languages(), l) })
	if ok {
		why := "is not known"
		if slices.Contains(Languages(), Language(given)) {
			why = absent
		}
		d.fault(CodeUnsupportedLanguage, "language "+quote(given)+" "+why, "language")
	}
	if len(served) > 0 {
		d.note(where + " the languages " + list(quoteAll(served), "and"))
	}
	// A language of the contract is no slip for another one.
	if near, ok := nearestValue("language", given, names(served)); ok && !slices.Contains(Languages(), Language(given)) {
		d.set("language", near)
		return
	}
	// What else the caller said may leave one language only.
	if name, ok := d.text("session_name"); ok {
		if s, ok := d.view.SessionNamed(name); ok && d.reachable(s) {
			d.set("language", string(s.Key.Language))
			return
		}
	}
	if d.present("venv_id") && slices.Contains(served, Python) {
		d.set("language", string(Python))
		return
	}
	// A program in a language that is not there does not become one in the only
	// language that is, so a single candidate is a mend only if none was named.
	d.choose("language", anyOf(served), !d.given("language"))
}

// judgeMode settles the state mode.
func judgeMode(d *draft) {
	given, ok := d.text("state_mode")
	if ok && slices.Contains(StateModes(), StateMode(given)) {
		return
	}
	if ok {
		d.fault(CodeUnsupportedStateMode, "state_mode "+quote(given)+" is not known", "state_mode")
		d.note("the state modes are " + list(quoteAll(StateModes()), "and"))
		if near, ok := nearestValue("state_mode", given, names(StateModes())); ok {
			d.set("state_mode", near)
			return
		}
	} else if !d.bad["state_mode"] {
		return
	}
	d.choose("state_mode", anyOf(StateModes()), true)
}

// judgeKeep keeps keep true to stateful calls: no other has a session to keep. A
// session that came without a mode will be taken for one.
func judgeKeep(d *draft) {
	stateful := d.mode() == Stateful || !d.given("state_mode") && (d.present("session_id") || d.present("session_name"))
	switch {
	case d.bad["keep"] && stateful:
		d.choose("keep", []any{true, false}, false)
	case d.bad["keep"]:
		d.drop("keep")
	case d.truth("keep") && !stateful:
		d.fault(CodeInvalidArgument, "keep true was given with state_mode "+quote(string(d.mode()))+", and only a stateful call keeps a session", "keep", "state_mode")
		d.drop("keep")
	}
}

// localOnly lists the given arguments that mean something on the mesh only.
func (d *draft) localOnly() []string {
	var found []string
	if d.mode() != Stateless || d.bad["state_mode"] {
		found = append(found, "state_mode")
	}
	for _, name := range []string{"session_id", "session_name", "venv_id"} {
		if d.present(name) {
			found = append(found, name)
		}
	}
	if d.truth("atomic") || d.bad["atomic"] {
		found = append(found, "atomic")
	}
	if d.truth("keep") || d.bad["keep"] {
		found = append(found, "keep")
	}
	return found
}

// remoteFault notes what a call on another surface cannot have, and gives it.
func (d *draft) remoteFault() []string {
	found := d.localOnly()
	if found == nil {
		return nil
	}
	shown := make([]string, len(found))
	for i, name := range found {
		shown[i] = d.show(name)
	}
	d.fault(CodeRemoteWithSession, fmt.Sprintf("surface %s runs stateless one-shots and takes no %s",
		quote(string(d.place())), list(shown, "and")), append(found, "surface")...)
	return found
}

// noteKept says what a call may keep that is led back to the mesh.
func (d *draft) noteKept(found []string) {
	if found != nil {
		d.note("surface " + quote(Local) + " takes " + list(found, "and"))
	}
}

// judgeRemote keeps sessions, environments and atomic calls on the mesh.
func judgeRemote(d *draft) {
	if d.place() == Local {
		return
	}
	found := d.remoteFault()
	if found == nil {
		return
	}
	d.drop(found...)
	keep := "to keep " + list(found, "and") + " instead, set surface to " + quote(Local)
	if d.present("machine") {
		keep += " and drop machine"
	}
	d.note(keep)
}

// judgeStateless keeps session arguments away from stateless calls. A mode that
// the caller wrote stands; where none was written, the session says what is meant.
func judgeStateless(d *draft) {
	if d.mode() != Stateless {
		return
	}
	var found, shown []string
	for _, name := range []string{"session_id", "session_name"} {
		if d.present(name) {
			found, shown = append(found, name), append(shown, d.show(name))
		}
	}
	if found == nil {
		return
	}
	if !d.given("state_mode") {
		d.fault(CodeStatelessWithSession, list(shown, "and")+" came without state_mode, which is \"stateless\" by default",
			append(found, "state_mode")...)
		d.set("state_mode", string(Stateful))
		return
	}
	d.fault(CodeStatelessWithSession, list(shown, "and")+" came with state_mode \"stateless\"", append(found, "state_mode")...)
	d.drop(found...)
}

// judgeAtomic keeps atomic to stateful calls. Any other call is atomic as it is.
func judgeAtomic(d *draft) {
	stateful := d.mode() == Stateful
	switch {
	case d.bad["atomic"] && stateful:
		d.choose("atomic", []any{true, false}, false)
	case d.bad["atomic"]:
		d.drop("atomic")
	case d.truth("atomic") && !stateful:
		d.fault(CodeAtomicWithoutStateful, "atomic true was given with state_mode "+quote(string(d.mode())), "atomic", "state_mode")
		d.drop("atomic")
	}
}
