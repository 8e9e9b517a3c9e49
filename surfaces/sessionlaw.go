package surfaces

import (
	"fmt"
	"slices"
)

// reachable reports whether a call can name the coordinates of a session: its
// language is served and its environment is still stored.
func (d *draft) reachable(s SessionItem) bool {
	_, stored := d.view.Venv(s.Key.Venv)
	return d.view.Serves(s.Key.Language) && (s.Key.Venv == 0 || stored)
}

// judgeSession settles which session a call runs in, and whether it may be made.
func judgeSession(d *draft) {
	if d.mode() == Stateless {
		return
	}
	d.settleHalves()
	name, named := d.text("session_name")
	id, numbered := d.integer("session_id")
	switch {
	case d.bad["session_name"], d.bad["session_id"]:
		d.judgeUnusableSession()
	case named:
		d.judgeName(name)
	case numbered:
		d.judgeID(id)
	case d.mode() == ReadOnly:
		d.fault(CodeReadOnlyNoSession, "state_mode \"read_only\" was given without session_id or session_name",
			"state_mode", "session_id", "session_name")
		d.readAnother(true)
	default:
		d.enter(0, "", nil)
	}
}

// sessionFault notes a fault that also hangs on the coordinates of the call.
func (d *draft) sessionFault(code Code, message string, arguments ...string) {
	d.fault(code, message, append(arguments, "state_mode", "language", "venv_id")...)
}

// settleHalves leaves out the unusable one of id and name when the other is good.
func (d *draft) settleHalves() {
	badID, badName := d.bad["session_id"], d.bad["session_name"]
	switch {
	case badID && (badName || d.present("session_name")):
		d.drop("session_id")
	case badName && d.present("session_id"):
		d.drop("session_name")
	}
}

// judgeUnusableSession settles an id or a name that means nothing: only the caller
// knows which session was meant.
func (d *draft) judgeUnusableSession() {
	argument := "session_name"
	if d.bad["session_id"] {
		argument = "session_id"
	}
	switch {
	case d.mode() == ReadOnly:
		d.readAnother(false)
	case d.view.Full():
		d.endAnother("")
	default:
		d.askSession(argument)
	}
}

// askSession leaves the choice of a new session to the caller.
func (d *draft) askSession(argument string) {
	d.session = &SessionRef{Key: d.key(0)}
	if argument == "session_name" {
		d.ask(argument, "another name of "+d.tool.argument(argument).expects())
		return
	}
	d.ask(argument, d.tool.argument(argument).expects())
}

func (d *draft) key(id int) SessionKey {
	return SessionKey{Actor: d.view.Actor, Language: d.language(), Venv: d.venv(), ID: id}
}

// find gives the session with an id at the coordinates of the call. The plan's
// own namespace is there even before it was used.
func (d *draft) find(id int) (SessionItem, bool) {
	s, ok := d.view.Session(d.language(), d.venv(), id)
	if !ok && d.key(id).IsPlan() {
		return SessionItem{Key: d.key(id)}, true
	}
	return s, ok
}

// lead records the session that the call leads to.
func (d *draft) lead(s SessionItem) {
	_, used := d.view.Session(s.Key.Language, s.Key.Venv, s.Key.ID)
	d.session = reference(s, used)
}

// enter leads a stateful call to an id, and makes the session if need be.
func (d *draft) enter(id int, name string, arguments []string) {
	if s, ok := d.find(id); ok {
		d.lead(s)
		return
	}
	if !d.view.Full() {
		d.session = &SessionRef{Key: d.key(id), Name: name}
		return
	}
	d.sessionFault(CodeSessionLimit, fmt.Sprintf("%s would be a new session, and the limit of %d is reached",
		d.describeNew(id, name), d.view.limit()), arguments...)
	d.endAnother(name)
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

// judgeID settles a call that names its session by id alone.
func (d *draft) judgeID(id int) {
	if d.mode() == Stateful {
		d.enter(id, "", []string{"session_id"})
		return
	}
	if s, ok := d.find(id); ok {
		d.lead(s)
		return
	}
	d.sessionFault(CodeSessionNotFound, fmt.Sprintf("there is no %s to read", d.describeNew(id, "")), "session_id")
	d.readAnother(false)
}

// judgeName settles a call that names its session, perhaps with an id too.
func (d *draft) judgeName(name string) {
	s, known := d.view.SessionNamed(name)
	id, numbered := d.integer("session_id")
	switch {
	case known && s.Key.Language == d.language() && s.Key.Venv == d.venv():
		if numbered && id != s.Key.ID {
			d.sessionFault(CodeSessionMismatch, fmt.Sprintf("session_name %s is session %d, but session_id %d was given", quote(name), s.Key.ID, id),
				"session_name", "session_id")
			d.drop("session_id")
		}
		d.lead(s)
	case known:
		d.judgeForeignName(name, s)
	case numbered:
		d.judgeNewNameWithID(name, id)
	case d.mode() == Stateful:
		d.enter(d.view.NextID(d.language(), d.venv()), name, []string{"session_name"})
	default:
		d.sessionFault(CodeSessionNotFound, fmt.Sprintf("there is no %s to read", d.describeNew(0, name)), "session_name")
		d.readNear(name)
	}
}

// judgeForeignName settles a name that belongs to another language or environment.
func (d *draft) judgeForeignName(name string, s SessionItem) {
	id, numbered := d.integer("session_id")
	d.sessionFault(CodeSessionMismatch, fmt.Sprintf("session_name %s belongs to %s, but the call is for %s",
		quote(name), coordinates(s.Key.Language, s.Key.Venv), coordinates(d.language(), d.venv())), "session_name")
	if numbered {
		if here, ok := d.find(id); ok {
			// The id agrees with the rest of the call, so the name is the slip.
			d.drop("session_name")
			d.lead(here)
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
		d.lead(s)
	case numbered:
		d.drop("session_name")
		d.judgeID(id)
	default:
		put(&d.bad, "session_name", true)
		delete(d.vals, "session_name")
		put(&d.mended, "session_name", true)
		d.judgeUnusableSession()
	}
}

func coordinates(language Language, venv int) string {
	if venv == 0 {
		return string(language)
	}
	return fmt.Sprintf("%s in venv %d", language, venv)
}

// judgeNewNameWithID settles an unknown name that came with an id.
func (d *draft) judgeNewNameWithID(name string, id int) {
	here, exists := d.find(id)
	if !exists && d.mode() == Stateful {
		d.enter(id, name, []string{"session_name", "session_id"})
		return
	}
	if !exists {
		d.sessionFault(CodeSessionNotFound, fmt.Sprintf("there is no %s and no session %d to read", d.describeNew(0, name), id), "session_name", "session_id")
		d.readNear(name)
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
		d.lead(here)
		return
	}
	if here.Key.IsPlan() && d.mode() == Stateful && !d.view.Full() {
		// Callers who fill in every argument write 0 for none; the name is meant.
		d.drop("session_id")
		d.enter(d.view.NextID(d.language(), d.venv()), name, []string{"session_name"})
		return
	}
	d.drop("session_name")
	d.lead(here)
}

// existingNames lists the names of the sessions at the coordinates of the call.
func existingNames(sessions []SessionItem) []string {
	var out []string
	for _, s := range sessions {
		if s.Name != "" {
			out = append(out, s.Name)
		}
	}
	return out
}

// pick mends a call by leading it to an existing session at its coordinates.
func (d *draft) pick(s SessionItem) {
	if s.Name != "" {
		d.set("session_name", s.Name)
		d.drop("session_id")
	} else {
		d.set("session_id", s.Key.ID)
		d.drop("session_name")
	}
	d.lead(s)
}

// readNear mends a read-only call whose session does not exist.
func (d *draft) readNear(name string) {
	here := d.view.within(d.language(), d.venv())
	if near, ok := nearestName(name, existingNames(here)); ok {
		i := slices.IndexFunc(here, func(s SessionItem) bool { return s.Name == near })
		d.pick(here[i])
		d.noteSessions(here)
		return
	}
	d.readAnother(false)
}

// readAnother mends a read-only call that has no session. The only session there
// is one is a mend when the caller named none; of several the caller chooses; and
// where there is nothing to read, a fresh process sees the same.
func (d *draft) readAnother(single bool) {
	here := d.view.within(d.language(), d.venv())
	d.noteSessions(here)
	switch {
	case len(here) == 0:
		d.drop("session_id", "session_name")
		d.set("state_mode", string(Stateless))
	case len(here) == 1 && single:
		d.pick(here[0])
	default:
		d.offerSessions(here)
	}
}

// endAnother says what must be done before a call that would make one session too many.
// There is no mechanical mend: code that was meant for a session of its own must not
// change what another one holds.
func (d *draft) endAnother(name string) {
	oldest, _ := d.view.LeastRecentlyUsed() // there is one when the limit is reached
	d.blocked = append(d.blocked, "end the least recently used session with close_session, which is "+describe(oldest))
	if near, ok := nearestName(name, existingNames(d.view.within(d.language(), d.venv()))); ok {
		d.note("there is a session named " + quote(near))
	}
	d.settleBlocked()
}

// settleBlocked goes on with a draft that waits for a session to be ended.
func (d *draft) settleBlocked() {
	d.session = &SessionRef{Key: d.key(0)}
	for _, argument := range []string{"session_id", "session_name"} {
		if d.bad[argument] {
			d.ask(argument, d.tool.argument(argument).expects())
		}
	}
}
