package surfaces

import (
	"fmt"
	"slices"
)

// reachable reports whether a call can still use a session: its language is served and its
// environment is stored.
func (d *draft) reachable(s SessionItem) bool {
	_, stored := d.view.Venv(s.Key.Venv)
	return d.view.Serves(s.Key.Language) && (s.Key.Venv == 0 || stored)
}

// checkSession determines the session of a call, and whether it may be created.
func checkSession(d *draft) {
	if d.mode() == Stateless {
		return
	}
	d.dropUnusableSelector()
	name, named := d.text("session_name")
	id, numbered := d.integer("session_id")
	switch {
	case d.unusable["session_name"], d.unusable["session_id"]:
		d.askForSession()
	case named:
		d.checkName(name)
	case numbered:
		d.checkID(id)
	case d.mode() == ReadOnly:
		d.fault(CodeReadOnlyNoSession, "state_mode \"read_only\" was given without session_id or session_name",
			"state_mode", "session_id", "session_name")
		d.offerReadable(true)
	default:
		d.openSession(0, "", nil)
	}
}

// sessionFault reports a fault that also depends on the state mode, language and environment.
func (d *draft) sessionFault(code Code, message string, arguments ...string) {
	d.fault(code, message, append(arguments, "state_mode", "language", "venv_id")...)
}

// dropUnusableSelector drops an unusable id or name if the other one was given. If both are
// unusable, the id is dropped.
func (d *draft) dropUnusableSelector() {
	badID, badName := d.unusable["session_id"], d.unusable["session_name"]
	switch {
	case badID && (badName || d.present("session_name")):
		d.drop("session_id")
	case badName && d.present("session_id"):
		d.drop("session_name")
	}
}

// askForSession handles an unusable id or name: only the caller knows which session was meant.
func (d *draft) askForSession() {
	argument := "session_name"
	if d.unusable["session_id"] {
		argument = "session_id"
	}
	switch {
	case d.mode() == ReadOnly:
		d.offerReadable(false)
	case d.view.AtLimit():
		d.requireClose("")
	default:
		d.askSession(argument)
	}
}

// askSession leaves the selector of a new session to the caller.
func (d *draft) askSession(argument string) {
	d.session = &SessionRef{Key: d.key(0)}
	if argument == "session_name" {
		d.askFor(argument, "another name of "+d.tool.argument(argument).expects())
		return
	}
	d.askFor(argument, d.tool.argument(argument).expects())
}

func (d *draft) key(id int) SessionKey {
	return SessionKey{Actor: d.view.Actor, Language: d.language(), Venv: d.venv(), ID: id}
}

// find returns the session with an id in the language and environment of the call. The plan's
// own namespace exists even if it was never used.
func (d *draft) find(id int) (SessionItem, bool) {
	s, ok := d.view.Session(d.language(), d.venv(), id)
	if !ok && d.key(id).IsPlan() {
		return SessionItem{Key: d.key(id)}, true
	}
	return s, ok
}

// useSession resolves the call to an existing session.
func (d *draft) useSession(s SessionItem) {
	_, used := d.view.Session(s.Key.Language, s.Key.Venv, s.Key.ID)
	d.session = reference(s, used)
}

// openSession resolves a stateful call to the session with an id, which is created if it does
// not exist.
func (d *draft) openSession(id int, name string, arguments []string) {
	if s, ok := d.find(id); ok {
		d.useSession(s)
		return
	}
	if !d.view.AtLimit() {
		d.session = &SessionRef{Key: d.key(id), Name: name}
		return
	}
	d.sessionFault(CodeSessionLimit, fmt.Sprintf("%s would be a new session, and the limit of %d is reached",
		d.describeNew(id, name), d.view.limit()), arguments...)
	d.requireClose(name)
}

func (d *draft) describeNew(id int, name string) string {
	where := string(d.language())
	if v := d.venv(); v != 0 {
		where += fmt.Sprintf(" in venv %d", v)
	}
	if name != "" {
		return fmt.Sprintf("session_name %s (%s)", quote(name), where)
	}
	return fmt.Sprintf("session %d of %s", id, where)
}

// checkID checks a call that gives only an id.
func (d *draft) checkID(id int) {
	if d.mode() == Stateful {
		d.openSession(id, "", []string{"session_id"})
		return
	}
	if s, ok := d.find(id); ok {
		d.useSession(s)
		return
	}
	d.sessionFault(CodeSessionNotFound, fmt.Sprintf("there is no %s to read", d.describeNew(id, "")), "session_id")
	d.offerReadable(false)
}

// checkName checks a call that gives a name, perhaps with an id.
func (d *draft) checkName(name string) {
	s, known := d.view.SessionNamed(name)
	id, numbered := d.integer("session_id")
	switch {
	case known && s.Key.Language == d.language() && s.Key.Venv == d.venv():
		if numbered && id != s.Key.ID {
			d.sessionFault(CodeSessionMismatch, fmt.Sprintf("session_name %s is session %d, but session_id %d was given", quote(name), s.Key.ID, id),
				"session_name", "session_id")
			d.drop("session_id")
		}
		d.useSession(s)
	case known:
		d.checkForeignName(name, s)
	case numbered:
		d.checkNewNameWithID(name, id)
	case d.mode() == Stateful:
		d.openSession(d.view.NextID(d.language(), d.venv()), name, []string{"session_name"})
	default:
		d.sessionFault(CodeSessionNotFound, fmt.Sprintf("there is no %s to read", d.describeNew(0, name)), "session_name")
		d.offerNearName(name)
	}
}

// checkForeignName corrects a name that belongs to another language or environment.
func (d *draft) checkForeignName(name string, s SessionItem) {
	id, numbered := d.integer("session_id")
	d.sessionFault(CodeSessionMismatch, fmt.Sprintf("session_name %s belongs to %s, but the call is for %s",
		quote(name), coordinates(s.Key.Language, s.Key.Venv), coordinates(d.language(), d.venv())), "session_name")
	if numbered {
		if here, ok := d.find(id); ok {
			// The id agrees with the rest of the call, so the name is wrong.
			d.drop("session_name")
			d.useSession(here)
			return
		}
	}
	switch {
	case d.reachable(s):
		d.set("language", string(s.Key.Language))
		d.setVenv(s.Key.Venv)
		if numbered && id != s.Key.ID {
			d.drop("session_id")
		}
		d.useSession(s)
	case numbered:
		d.drop("session_name")
		d.checkID(id)
	default:
		put(&d.unusable, "session_name", true)
		delete(d.values, "session_name")
		put(&d.corrected, "session_name", true)
		d.askForSession()
	}
}

func coordinates(language Language, venv int) string {
	if venv == 0 {
		return string(language)
	}
	return fmt.Sprintf("%s in venv %d", language, venv)
}

// checkNewNameWithID checks an unknown name that is given with an id.
func (d *draft) checkNewNameWithID(name string, id int) {
	here, exists := d.find(id)
	if !exists && d.mode() == Stateful {
		d.openSession(id, name, []string{"session_name", "session_id"})
		return
	}
	if !exists {
		d.sessionFault(CodeSessionNotFound, fmt.Sprintf("there is no %s and no session %d to read", d.describeNew(0, name), id), "session_name", "session_id")
		d.offerNearName(name)
		return
	}
	held := "has no name"
	if here.Name != "" {
		held = "is named " + quote(here.Name)
	}
	d.sessionFault(CodeSessionMismatch, fmt.Sprintf("session_id %d is a session that %s, but session_name %s was given", id, held, quote(name)),
		"session_name", "session_id")
	if _, near := nearestName(name, []string{here.Name}); near && here.Name != "" {
		d.set("session_name", here.Name)
		d.useSession(here)
		return
	}
	if here.Key.IsPlan() && d.mode() == Stateful && !d.view.AtLimit() {
		// Callers that fill in every argument write 0 for no id, so the name is meant.
		d.drop("session_id")
		d.openSession(d.view.NextID(d.language(), d.venv()), name, []string{"session_name"})
		return
	}
	d.drop("session_name")
	d.useSession(here)
}

// existingNames lists the names of sessions that have one.
func existingNames(sessions []SessionItem) []string {
	var out []string
	for _, s := range sessions {
		if s.Name != "" {
			out = append(out, s.Name)
		}
	}
	return out
}

// selectExisting corrects a call so that it uses an existing session of its language and
// environment.
func (d *draft) selectExisting(s SessionItem) {
	if s.Name != "" {
		d.set("session_name", s.Name)
		d.drop("session_id")
	} else {
		d.set("session_id", s.Key.ID)
		d.drop("session_name")
	}
	d.useSession(s)
}

// offerNearName corrects a read-only call whose session does not exist.
func (d *draft) offerNearName(name string) {
	here := d.view.within(d.language(), d.venv())
	if near, ok := nearestName(name, existingNames(here)); ok {
		i := slices.IndexFunc(here, func(s SessionItem) bool { return s.Name == near })
		d.selectExisting(here[i])
		d.noteSessions(here)
		return
	}
	d.offerReadable(false)
}

// offerReadable corrects a read-only call without a session. With single, the only session
// that exists is the correction; else the caller chooses among the existing ones. If there
// are none the correction is stateless, which sees the same as an empty session.
func (d *draft) offerReadable(single bool) {
	here := d.view.within(d.language(), d.venv())
	d.noteSessions(here)
	switch {
	case len(here) == 0:
		d.drop("session_id", "session_name")
		d.set("state_mode", string(Stateless))
	case len(here) == 1 && single:
		d.selectExisting(here[0])
	default:
		d.offerSessions(here)
	}
}

// requireClose tells the caller to close a session before a call that would exceed the limit.
// There is no mechanical correction: code meant for a new session must not change the state
// of an existing one.
func (d *draft) requireClose(name string) {
	oldest, _ := d.view.LeastRecentlyUsed() // exists, because the limit is reached
	d.prerequisites = append(d.prerequisites, "end the least recently used session with close_session, which is "+describe(oldest))
	if near, ok := nearestName(name, existingNames(d.view.within(d.language(), d.venv()))); ok {
		d.note("there is a session named " + quote(near))
	}
	d.continueBlocked()
}

// continueBlocked lets validation go on although a session has to be closed first.
func (d *draft) continueBlocked() {
	d.session = &SessionRef{Key: d.key(0)}
	for _, argument := range []string{"session_id", "session_name"} {
		if d.unusable[argument] {
			d.askFor(argument, d.tool.argument(argument).expects())
		}
	}
}
