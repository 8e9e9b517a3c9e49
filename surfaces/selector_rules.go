package surfaces

import (
	"fmt"
	"slices"
)

// checkSelectorLanguage checks the language of a selector. Any known language is valid, because
// a session may exist in a language that the mesh no longer serves.
func checkSelectorLanguage(d *draft) {
	given, ok := d.text("language")
	if ok && slices.Contains(Languages(), Language(given)) {
		return
	}
	if ok {
		d.fault(CodeUnsupportedLanguage, "language "+quote(given)+" is not known", "language")
		d.note("the languages are " + list(quoteAll(Languages()), "and"))
		if near, ok := nearestValue("language", given, names(Languages())); ok {
			d.set("language", near)
			return
		}
	} else if !d.unusable["language"] {
		return
	}
	if name, ok := d.text("session_name"); ok {
		if _, ok := d.view.SessionNamed(name); ok {
			d.drop("language") // the name is enough
			return
		}
	}
	d.choose("language", anyOf(Languages()), false)
}

// checkSelectorVenv checks the environment of a selector.
func checkSelectorVenv(d *draft) {
	id, ok := d.integer("venv_id")
	language, _ := d.text("language")
	switch {
	case !d.present("venv_id"):
	case language != "" && Language(language).IsShell():
		if ok {
			d.fault(CodeVenvWithShell, fmt.Sprintf("venv_id %d was given with language %s, and only python has environments",
				id, quote(language)), "venv_id", "language")
		}
		d.drop("venv_id")
	case d.unusable["venv_id"] && d.present("session_name"):
		d.drop("venv_id")
	}
}

// selectorKey returns the key for an id with the language and environment of the selector.
func (d *draft) selectorKey(id int) SessionKey {
	key := d.key(id)
	if key.Language == "" {
		key.Language = Python
	}
	return key
}

func (d *draft) selectByKey(key SessionKey) (SessionItem, bool) {
	s, ok := d.view.Session(key.Language, key.Venv, key.ID)
	if !ok && key.IsPlan() {
		return SessionItem{Key: key}, true
	}
	return s, ok
}

// destructive reports whether a wrong guess at the session would lose state.
func (d *draft) destructive() bool { return d.tool.Name == ToolClose || d.tool.Name == ToolReset }

// checkSelectorSession determines the selected session.
func checkSelectorSession(d *draft) {
	d.dropUnusableSelector()
	name, named := d.text("session_name")
	id, numbered := d.integer("session_id")
	switch {
	case d.unusable["session_name"], d.unusable["session_id"], d.unusable["venv_id"]:
		d.offerAllSessions()
	case named:
		d.selectName(name)
	case numbered:
		d.selectID(id)
	case d.tool.Name == ToolInspect:
		d.selectID(0)
	default:
		d.fault(CodeInvalidArgument, d.tool.Name+" was called without session_name or session_id", "session_name", "session_id")
		d.offerAllSessions()
	}
}

func (d *draft) selectName(name string) {
	s, ok := d.view.SessionNamed(name)
	if ok {
		d.checkAgreement(name, s)
		return
	}
	id, numbered := d.integer("session_id")
	if numbered {
		if here, ok := d.selectByKey(d.selectorKey(id)); ok {
			d.fault(CodeSessionMismatch, fmt.Sprintf("session_id %d leads to %s, but session_name %s was given, which leads to none",
				id, describe(here), quote(name)), "session_name", "session_id")
			d.resolveMismatch(here)
			return
		}
	}
	if d.tool.Name == ToolClose {
		d.session = &SessionRef{Key: SessionKey{Actor: d.view.Actor}, Name: name} // no id: it could be that of another session
		return
	}
	d.fault(CodeSessionNotFound, "there is no session_name "+quote(name), "session_name")
	if near, ok := nearestName(name, existingNames(d.view.Sessions)); ok && !d.destructive() {
		s, _ := d.view.SessionNamed(near)
		d.selectSession(s)
		return
	}
	d.offerAllSessions()
}

// checkAgreement checks that the other selectors given with a name select the same session.
func (d *draft) checkAgreement(name string, s SessionItem) {
	d.session = reference(s, true)
	var differ, shown []string
	if language, ok := d.text("language"); ok && Language(language) != s.Key.Language {
		differ, shown = append(differ, "language"), append(shown, d.describeArgument("language"))
	}
	if venv, ok := d.integer("venv_id"); ok && venv != s.Key.Venv {
		differ, shown = append(differ, "venv_id"), append(shown, d.describeArgument("venv_id"))
	}
	other := false
	if id, ok := d.integer("session_id"); ok && id != s.Key.ID {
		differ, shown = append(differ, "session_id"), append(shown, d.describeArgument("session_id"))
		_, other = d.selectByKey(d.selectorKey(id))
	}
	if differ == nil {
		return
	}
	d.fault(CodeSessionMismatch, fmt.Sprintf("session_name %s is %s, but %s was given", quote(name), describe(s), list(shown, "and")),
		append(differ, "session_name")...)
	if other && d.destructive() {
		id, _ := d.integer("session_id")
		here, _ := d.selectByKey(d.selectorKey(id))
		d.resolveMismatch(s, here)
		return
	}
	d.drop(differ...)
}

// resolveMismatch corrects an id and a name that select different sessions. If only one
// session exists and the tool destroys no state, it is taken; else the caller has to choose.
func (d *draft) resolveMismatch(sessions ...SessionItem) {
	if len(sessions) == 1 && !d.destructive() {
		d.selectSession(sessions[0])
		return
	}
	d.offerSelectors(sessions)
}

func (d *draft) selectID(id int) {
	if _, given := d.text("language"); !given && d.destructiveOrFork() && d.ambiguous(id) {
		return
	}
	key := d.selectorKey(id)
	s, ok := d.selectByKey(key)
	switch {
	case ok:
		_, used := d.view.Session(key.Language, key.Venv, key.ID)
		d.session = reference(s, used)
	case d.tool.Name == ToolClose:
		d.session = &SessionRef{Key: key}
	default:
		d.fault(CodeSessionNotFound, fmt.Sprintf("there is no session %d of %s", id, coordinates(key.Language, key.Venv)),
			"session_id", "language", "venv_id")
		d.offerAllSessions()
	}
}

func (d *draft) destructiveOrFork() bool { return d.destructive() || d.tool.Name == ToolFork }

// ambiguous refuses an id without a language if sessions of other languages or environments
// have the same id. Python is the default language only if nothing else could be meant.
func (d *draft) ambiguous(id int) bool {
	if d.present("venv_id") {
		return false // only python has environments
	}
	var found []SessionItem
	elsewhere := false
	for _, s := range d.view.Sessions {
		if s.Key.ID == id {
			found = append(found, s)
			elsewhere = elsewhere || s.Key.Language != Python || s.Key.Venv != 0
		}
	}
	if !elsewhere {
		return false
	}
	if plan := d.selectorKey(id); plan.IsPlan() && !slices.ContainsFunc(found, func(s SessionItem) bool { return s.Key.IsPlan() }) {
		found = append(found, SessionItem{Key: plan})
	}
	d.fault(CodeInvalidArgument, fmt.Sprintf("session_id %d was given without language, and could be one of several sessions", id), "session_id", "language")
	if len(found) == 1 {
		d.selectSession(found[0])
		return true
	}
	d.offerSelectors(found)
	return true
}

// selectSession corrects a selector so that it selects a session.
func (d *draft) selectSession(s SessionItem) {
	o := selectorOption(s)
	d.drop(o.drop...)
	for name, v := range o.set {
		d.set(name, v)
	}
	_, used := d.view.Session(s.Key.Language, s.Key.Venv, s.Key.ID)
	d.session = reference(s, used)
}

// selectorOption returns the selector of a session: its name alone, or its whole key.
func selectorOption(s SessionItem) option {
	if s.Name != "" {
		return option{set: map[string]any{"session_name": s.Name}, drop: []string{"session_id", "language", "venv_id"}}
	}
	o := option{set: map[string]any{"session_id": s.Key.ID, "language": string(s.Key.Language)}, drop: []string{"session_name"}}
	if s.Key.Venv == 0 {
		o.drop = append(o.drop, "venv_id")
	} else {
		o.set["venv_id"] = s.Key.Venv
	}
	return o
}

// offerAllSessions lets the caller choose among all sessions.
func (d *draft) offerAllSessions() {
	all := slices.Clone(d.view.Sessions)
	plan := SessionKey{Actor: d.view.Actor, Language: Python}
	if _, used := d.view.Session(Python, 0, 0); !used && d.tool.Name != ToolClose {
		all = append(all, SessionItem{Key: plan})
	}
	if len(all) == 0 {
		for _, name := range []string{"session_id", "language", "venv_id"} {
			if d.present(name) {
				d.drop(name)
			}
		}
		d.askFor("session_name", "the name of a session")
		d.note("there are no sessions, and closing one that does not exist is no fault")
		return
	}
	d.offerSelectors(all)
}
