package surfaces

import (
	"slices"
	"time"
)

// SessionState is the state of a session.
type SessionState string

// The states of a session, as list_sessions shows them.
const (
	SessionLive        SessionState = "live"
	SessionBusy        SessionState = "busy"
	SessionUnreachable SessionState = "unreachable"
	SessionLost        SessionState = "lost"
)

// SessionItem is a session in a View. A lost session keeps its name and id.
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
	// Languages are those that it can run; empty if not known.
	Languages []Language
}

// View is what an actor can see of the mesh at one moment, and the only input of validation
// beside the arguments. It must not be changed once it was handed over, so that any number of
// goroutines may read it.
type View struct {
	Actor string
	// Languages lists the languages that this mesh serves, in the order to offer them in.
	Languages []Language
	// Places lists the places that this mesh serves. Local is always served, listed or not.
	Places   []Place
	Sessions []SessionItem
	Venvs    []VenvItem
	Machines []MachineItem
	// MaxSessions is the limit of counted sessions; 0 means the constant MaxSessions.
	MaxSessions int
}

// Session finds a session of the view's actor.
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

// NextID returns the id of the next named session of a language and environment: the smallest
// free one from 1. It is never 0, the session of stateful calls that name none.
func (v *View) NextID(language Language, venv int) int {
	for id := 1; ; id++ {
		if _, taken := v.Session(language, venv, id); !taken {
			return id
		}
	}
}

// AtLimit reports whether the limit of counted sessions is reached.
func (v *View) AtLimit() bool {
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

// LeastRecentlyUsed returns the counted session that was not used for the longest time, the
// first of several.
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

// within lists the sessions of a language and environment, including the plan's own namespace
// even if it was never used.
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

// LanguagesAt lists the languages of a place: those of the mesh itself, or of any machine
// linked there. If no machine reports its languages, it returns those of the mesh.
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

// places lists the served places in their fixed order.
func (v *View) places() []Place {
	var list []Place
	for _, p := range Places() {
		if v.ServesPlace(p) {
			list = append(list, p)
		}
	}
	return list
}
