package surfaces

import (
	"fmt"
	"strconv"
	"strings"
)

// describe names a session in a message.
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

// offerSessions lets the caller choose among sessions of the call's language and environment,
// by name if they have one. Validation goes on with the first.
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
		ways = append(ways, d.verb("session_name")+" "+oneOf(byName)+d.andDrop("session_id"))
	}
	if byID != nil {
		ways = append(ways, d.verb("session_id")+" "+oneOf(byID)+d.andDrop("session_name"))
	}
	ch.text = strings.Join(ways, ", or ")
	d.selectExisting(sessions[0])
	d.choices = append(d.choices, ch)
}

// andDrop tells the caller to drop an argument, if it was given.
func (d *draft) andDrop(name string) string {
	if d.given(name) {
		return " and drop " + name
	}
	return ""
}

// offerSelectors lets the caller of a session tool choose among sessions. Validation goes on
// with the first.
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
		way := d.changes(o.set)
		if drop := d.andDropAll(o.drop); way == "" {
			way = strings.TrimPrefix(drop, " and ")
		} else {
			way += drop
		}
		ways = append(ways, way)
	}
	if byName != nil {
		first := d.verb("session_name") + " " + oneOf(byName) + d.andDropAll([]string{"session_id", "language", "venv_id"})
		ways = append([]string{first}, ways...)
	}
	ch.text = strings.Join(ways, ", or ")
	d.selectSession(sessions[0])
	d.choices = append(d.choices, ch)
}

// changes tells the caller to set those of the values that were not given so.
func (d *draft) changes(set map[string]any) string {
	var clauses []string
	for _, name := range []string{"session_id", "language", "venv_id"} {
		if v, ok := set[name]; ok && !d.isAsReceived(name, v) {
			clauses = append(clauses, d.verb(name)+" "+quote(v))
		}
	}
	return strings.Join(clauses, ", ")
}

// andDropAll tells the caller to drop those of the arguments that were given.
func (d *draft) andDropAll(names []string) string {
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
