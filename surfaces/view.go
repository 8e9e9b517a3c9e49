package surfaces

import (
	"slices"
	"time"
)

// SessionState says where a session stands.
type SessionState string

// The states of a session, as list_sessions shows them.
const (
	SessionLive        SessionState = "live"
	SessionBusy        SessionState = "busy"
	SessionUnreachable SessionState = "unreachable"
	SessionLost        SessionState = "lost"
)

// SessionItem is one session as a View shows it. A lost session still holds its
// name and its id.
type SessionItem struct {
	Key SessionKey
	// Name is empty when the session has none.
	Name     string
	State    SessionState
	Epoch    uint64
	LastUsed time.Time
	// Counts says whether the session counts towards MaxSessions.
	Counts bool
}

// VenvItem is one stored environment. Its ID is at least 1.
type VenvItem struct {
	ID   int
	Name string
}

// MachineItem is one linked machine. Names are unique within a place.
type MachineItem struct {
	Name   string
	Place  Place
	Online bool
	// Languages are those that it has; none for not known.
	Languages []Language
}

// View is what one actor can see of the mesh at one moment, and all that the law
// needs to know of the world. It must not be changed once it was handed over;
// then any number of goroutines may read it.
type View struct {
	Actor string
	// Languages lists what this mesh serves, in the order in which to offer it.
	Languages []Language
	// Places lists what this mesh serves. Local is always served, listed or not.
	Places   []Place
	Sessions []SessionItem
	Venvs    []VenvItem
	Machines []MachineItem
	// MaxSessions is how many sessions may count; 0 stands for the constant of
	// that name.
	MaxSessions int
}

// Session finds the session with a key. The key's Actor is not looked at: a View
// shows the sessions of one actor.
func (v *View) Session(language Language, venv, id int) (SessionItem, bool) {
	for _, s := range v.Sessions {
		if s.Key.ID == id && s.Key.Language == language && s.Key.Venv == venv {
			return s, true
		}
	}
	return SessionItem{}, false
}

// SessionNamed finds the session with a name, in any language and environment:
// names are unique within an actor. The empty name finds nothing.
func (v *View) SessionNamed(name string) (SessionItem, bool) {
	if name == "" {
		return SessionItem{}, false
	}
	for _, s := range v.Sessions {
		if s.Name == name {
			return s, true
		}
	}
	return SessionItem{}, false
}

// NextID gives the id that the next named session of a language and environment
// gets: the smallest free one from 1. Id 0 is never handed out, because it is
// where stateful calls without a session go.
func (v *View) NextID(language Language, venv int) int {
	for id := 1; ; id++ {
		if _, taken := v.Session(language, venv, id); !taken {
			return id
		}
	}
}

// Full reports whether one more session that counts would be over the limit.
func (v *View) Full() bool {
	n := 0
	for _, s := range v.Sessions {
		if s.Counts {
			n++
		}
	}
	return n >= v.limit()
}

func (v *View) limit() int {
	if v.MaxSessions > 0 {
		return v.MaxSessions
	}
	return MaxSessions
}

// LeastRecentlyUsed gives the counted session whose last use is longest ago; of
// several, the one listed first.
func (v *View) LeastRecentlyUsed() (SessionItem, bool) {
	var oldest SessionItem
	found := false
	for _, s := range v.Sessions {
		if s.Counts && (!found || s.LastUsed.Before(oldest.LastUsed)) {
			oldest, found = s, true
		}
	}
	return oldest, found
}

// within lists the sessions of one language and environment, the plan's own
// namespace among them even when it was never used.
func (v *View) within(language Language, venv int) []SessionItem {
	var list []SessionItem
	for _, s := range v.Sessions {
		if s.Key.Language == language && s.Key.Venv == venv {
			list = append(list, s)
		}
	}
	plan := SessionKey{Actor: v.Actor, Language: language, Venv: venv}
	if _, used := v.Session(language, venv, 0); plan.IsPlan() && !used {
		list = append(list, SessionItem{Key: plan, State: SessionLive})
	}
	return list
}

// Venv finds a stored environment.
func (v *View) Venv(id int) (VenvItem, bool) {
	for _, e := range v.Venvs {
		if e.ID == id {
			return e, true
		}
	}
	return VenvItem{}, false
}

// Machine finds a linked machine of a place by its name.
func (v *View) Machine(place Place, name string) (MachineItem, bool) {
	for _, m := range v.Machines {
		if m.Place == place && m.Name == name {
			return m, true
		}
	}
	return MachineItem{}, false
}

// MachinesAt lists the linked machines of a place, online or not.
func (v *View) MachinesAt(place Place) []MachineItem {
	var list []MachineItem
	for _, m := range v.Machines {
		if m.Place == place {
			list = append(list, m)
		}
	}
	return list
}

// Serves reports whether the mesh runs code of a language.
func (v *View) Serves(language Language) bool {
	for _, l := range v.Languages {
		if l == language {
			return true
		}
	}
	return false
}

// LanguagesAt lists the languages that there are at a place: on the mesh itself, or on any
// of the machines that are linked there. Where the machines do not say, it is the mesh's.
func (v *View) LanguagesAt(place Place) []Language {
	if place == Local {
		return v.Languages
	}
	var list []Language
	for _, l := range Languages() {
		for _, m := range v.MachinesAt(place) {
			if slices.Contains(m.Languages, l) {
				list = append(list, l)
				break
			}
		}
	}
	if len(list) == 0 {
		return v.Languages
	}
	return list
}

// ServesPlace reports whether the mesh runs code at a place.
func (v *View) ServesPlace(place Place) bool {
	if place == Local {
		return true
	}
	for _, p := range v.Places {
		if p == place {
			return true
		}
	}
	return false
}

// places lists the served places in the order of the contract.
func (v *View) places() []Place {
	var list []Place
	for _, p := range Places() {
		if v.ServesPlace(p) {
			list = append(list, p)
		}
	}
	return list
}
