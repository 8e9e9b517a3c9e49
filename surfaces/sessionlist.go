package surfaces

import (
	"fmt"
	"strconv"
	"strings"
)

// describe names a session for people.
func describe(s SessionItem) string {
	where := fmt.Sprintf("(%s %d", s.Key.Language, s.Key.ID)
	if s.Key.Venv != 0 {
		where += fmt.Sprintf(" in venv %d", s.Key.Venv)
	}
	where += ")"
	switch {
	case s.Name == "" && s.Key.IsPlan():
		return "the plan's own namespace " + where
	case s.Name == "":
		return "the unnamed one " + where
	}
	return quote(s.Name) + " " + where
}

// noteSessions lists the sessions that a call could have meant.
func (d *draft) noteSessions(sessions []SessionItem) {
	if len(sessions) == 0 {
		d.note("there is no session of " + coordinates(d.language(), d.venv()))
		return
	}
	shown := make([]string, len(sessions))
	for i, s := range sessions {
		shown[i] = describe(s)
	}
	d.note("the sessions there are " + list(shown, "and"))
}

// offerSessions lets the caller choose one of the sessions at the coordinates of
// the call, by name where there is one, and goes on with the first.
func (d *draft) offerSessions(sessions []SessionItem) {
	var byName, byID []string
	ch := choice{argument: "session_name"}
	for _, s := range sessions[:min(len(sessions), maxListed)] {
		if s.Name != "" {
			byName = append(byName, quote(s.Name))
			ch.options = append(ch.options, option{set: map[string]any{"session_name": s.Name}, drop: []string{"session_id"}})
			continue
		}
		byID = append(byID, strconv.Itoa(s.Key.ID))
		ch.options = append(ch.options, option{set: map[string]any{"session_id": s.Key.ID}, drop: []string{"session_name"}})
	}
	var ways []string
	if byName != nil {
		ways = append(ways, d.verb("session_name")+" "+oneOf(byName)+d.leaving("session_id"))
	}
	if byID != nil {
		ways = append(ways, d.verb("session_id")+" "+oneOf(byID)+d.leaving("session_name"))
	}
	ch.text = strings.Join(ways, ", or ")
	d.pick(sessions[0])
	d.choices = append(d.choices, ch)
}

// leaving adds that an argument which was given has to go.
func (d *draft) leaving(name string) string {
	if d.given(name) {
		return " and drop " + name
	}
	return ""
}

// offerSelectors lets the caller of a session tool choose one of several sessions,
// and goes on with the first.
func (d *draft) offerSelectors(sessions []SessionItem) {
	sessions = sessions[:min(len(sessions), maxListed)]
	ch := choice{argument: "session_name"}
	var byName, ways []string
	for _, s := range sessions {
		o := selectorOption(s)
		ch.options = append(ch.options, o)
		if s.Name != "" {
			byName = append(byName, quote(s.Name))
			continue
		}
		way := d.verb("session_id") + " " + strconv.Itoa(s.Key.ID) + ", " + d.verb("language") + " " + quote(s.Key.Language)
		if s.Key.Venv != 0 {
			way += ", " + d.verb("venv_id") + " " + strconv.Itoa(s.Key.Venv)
		}
		ways = append(ways, way+d.leavingAll(o.drop))
	}
	if byName != nil {
		first := d.verb("session_name") + " " + oneOf(byName) + d.leavingAll([]string{"session_id", "language", "venv_id"})
		ways = append([]string{first}, ways...)
	}
	ch.text = strings.Join(ways, ", or ")
	d.pickSession(sessions[0])
	d.choices = append(d.choices, ch)
}

// leavingAll adds that the arguments among names which were given have to go.
func (d *draft) leavingAll(names []string) string {
	var given []string
	for _, name := range names {
		if d.given(name) {
			given = append(given, name)
		}
	}
	if given == nil {
		return ""
	}
	return " and drop " + list(given, "and")
}
