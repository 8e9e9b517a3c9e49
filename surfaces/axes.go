package surfaces

import (
	"fmt"
	"slices"
)

// checkSurface checks the surface. If it cannot run the call, the correction is local.
func checkSurface(d *draft) {
	if d.unusable["surface"] {
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
		d.noteLocalTakes(d.remoteFault())
		d.fault(CodeUnsupportedSurface, "surface "+quote(place)+" is not served by this mesh", "surface")
		d.notePlaces()
		d.choose("surface", d.usablePlaces(), true)
	case place != Local && len(d.view.MachinesAt(place)) == 0 && !d.machineElsewhere():
		d.noteLocalTakes(d.remoteFault())
		message := "no machine is linked for surface " + quote(place)
		if m, ok := d.text("machine"); ok {
			message = "machine " + quote(m) + " is not linked, and " + message
		}
		d.fault(CodeMachineNotLinked, message, "surface", "machine")
		d.drop("machine")
		d.set("surface", string(Local))
	}
}

// usablePlaces lists the served places that have a machine to run the call.
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

// checkLanguage checks the language.
func checkLanguage(d *draft) {
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
	defer func() {
		if len(served) > 0 && !d.offersAll("language", len(served)) {
			d.note(where + " the languages " + list(quoteAll(served), "and"))
		}
	}()
	// A known language is not a typing error for another one.
	if near, ok := nearestValue("language", given, names(served)); ok && !slices.Contains(Languages(), Language(given)) {
		d.set("language", near)
		return
	}
	// The other arguments may leave only one language.
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
	// A program written in one language is not run in another, so a single candidate is a
	// correction only if no language was given.
	d.choose("language", anyOf(served), !d.given("language"))
}

// checkMode checks the state mode.
func checkMode(d *draft) {
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
	} else if !d.unusable["state_mode"] {
		return
	}
	d.choose("state_mode", anyOf(StateModes()), true)
}

// checkKeep allows keep: true only in stateful calls, because no other call has a session to
// keep. A session argument without a mode counts as stateful, as checkStateless will set it.
func checkKeep(d *draft) {
	stateful := d.mode() == Stateful || !d.given("state_mode") && (d.present("session_id") || d.present("session_name"))
	switch {
	case d.unusable["keep"] && stateful:
		d.choose("keep", []any{true, false}, false)
	case d.unusable["keep"]:
		d.drop("keep")
	case d.boolean("keep") && !stateful:
		d.fault(CodeInvalidArgument, "keep true was given with state_mode "+quote(string(d.mode()))+", and only a stateful call keeps a session", "keep", "state_mode")
		d.drop("keep")
	}
}

// localOnly lists the given arguments that have a meaning only on the mesh itself.
func (d *draft) localOnly() []string {
	var found []string
	if d.mode() != Stateless || d.unusable["state_mode"] {
		found = append(found, "state_mode")
	}
	for _, name := range []string{"session_id", "session_name", "venv_id"} {
		if d.present(name) {
			found = append(found, name)
		}
	}
	if d.boolean("atomic") || d.unusable["atomic"] {
		found = append(found, "atomic")
	}
	if d.boolean("keep") || d.unusable["keep"] {
		found = append(found, "keep")
	}
	return found
}

// remoteFault reports the arguments that a call on another surface cannot have, and returns
// their names.
func (d *draft) remoteFault() []string {
	found := d.localOnly()
	if found == nil {
		return nil
	}
	shown := make([]string, len(found))
	for i, name := range found {
		shown[i] = d.describeArgument(name)
	}
	d.fault(CodeRemoteWithSession, fmt.Sprintf("surface %s runs stateless one-shots and takes no %s",
		quote(string(d.place())), list(shown, "and")), append(found, "surface")...)
	return found
}

// noteLocalTakes notes which arguments a call may keep if its surface is set to local.
func (d *draft) noteLocalTakes(found []string) {
	if found != nil {
		d.note("surface " + quote(Local) + " takes " + list(found, "and"))
	}
}

// checkRemote allows sessions, environments and atomic calls only on the mesh itself.
func checkRemote(d *draft) {
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

// checkStateless refuses session arguments in stateless calls. If stateless was given, the
// correction drops them; if it is only the default, the correction is stateful.
func checkStateless(d *draft) {
	if d.mode() != Stateless {
		return
	}
	var found, shown []string
	for _, name := range []string{"session_id", "session_name"} {
		if d.present(name) {
			found, shown = append(found, name), append(shown, d.describeArgument(name))
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

// checkAtomic allows atomic only in stateful calls; the others change no session anyway.
func checkAtomic(d *draft) {
	stateful := d.mode() == Stateful
	switch {
	case d.unusable["atomic"] && stateful:
		d.choose("atomic", []any{true, false}, false)
	case d.unusable["atomic"]:
		d.drop("atomic")
	case d.boolean("atomic") && !stateful:
		d.fault(CodeAtomicWithoutStateful, "atomic true was given with state_mode "+quote(string(d.mode())), "atomic", "state_mode")
		d.drop("atomic")
	}
}
