package registry

import "github.com/locusrun/locus/surfaces"

// CloseSession ends a session: its key, name and place are free again. With
// neither Grant nor Expected it closes whatever the key has. A session that is
// not there is NotFound, so closing is idempotent.
type CloseSession struct {
	Proposal `json:"-"`
	Key      surfaces.SessionKey `json:"key"`
	// Expected closes only that epoch, if not 0.
	Expected Epoch `json:"expected,omitempty"`
	// Grant is given by an owner that closes by itself.
	Grant Grant `json:"grant,omitzero"`
}

// CloseResult says what became of a CloseSession.
type CloseResult string

const (
	// Closed: the session was ended by this command. Session is its last record.
	Closed CloseResult = "closed"
	// CloseNotFound: there is no such session.
	CloseNotFound CloseResult = "not_found"
	// CloseStale: the session has another epoch, or another grant. Session is its record.
	CloseStale CloseResult = "stale_epoch"
)

// CloseOutcome answers CloseSession. What Session holds depends on Result.
type CloseOutcome struct {
	Result  CloseResult `json:"result"`
	Session Session     `json:"session,omitzero"`
}

func (CloseSession) kind() kind { return kindCloseSession }

func (c CloseSession) bounds() error {
	return checkBounds(isKey(c.Key), c.Grant == Grant{} || isGrant(c.Grant))
}

func (c CloseSession) apply(t tables, _ moment) any {
	s := t.session(c.Key)
	if s == nil {
		return CloseOutcome{Result: CloseNotFound}
	}
	if !t.may(s, c.Expected, c.Grant) {
		return CloseOutcome{Result: CloseStale, Session: *s}
	}
	t.remove(tableSessions, s)
	closed := *s
	closed.State = SessionClosed
	return CloseOutcome{Result: Closed, Session: closed}
}

// may judges a command that either comes from an owner, with its grant, or on
// behalf of a caller, with or without an expected epoch.
func (t tables) may(s *Session, expected Epoch, g Grant) bool {
	if g != (Grant{}) && !t.granted(s, g) {
		return false
	}
	return expected == 0 || expected == s.Epoch
}

// RenameSession gives a session another name, or takes its name away.
type RenameSession struct {
	Proposal `json:"-"`
	Key      surfaces.SessionKey `json:"key"`
	// Name is the new name; empty for none.
	Name string `json:"name,omitempty"`
	// Expected renames only that epoch, if not 0.
	Expected Epoch `json:"expected,omitempty"`
	// Grant is given by an owner that renames by itself.
	Grant Grant `json:"grant,omitzero"`
}

// RenameResult says what became of a RenameSession.
type RenameResult string

const (
	// Renamed: the session has the name. Session is its record.
	Renamed RenameResult = "renamed"
	// RenameNotFound: there is no such session.
	RenameNotFound RenameResult = "not_found"
	// RenameTaken: the name leads to another key. Session is the record of that key.
	RenameTaken RenameResult = "name_taken"
	// RenameStale: the session has another epoch, or another grant. Session is its record.
	RenameStale RenameResult = "stale_epoch"
)

// RenameOutcome answers RenameSession. What Session holds depends on Result.
type RenameOutcome struct {
	Result  RenameResult `json:"result"`
	Session Session      `json:"session,omitzero"`
}

func (RenameSession) kind() kind { return kindRenameSession }

func (c RenameSession) bounds() error {
	return checkBounds(isKey(c.Key), isSessionName(c.Name), c.Grant == Grant{} || isGrant(c.Grant))
}

func (c RenameSession) apply(t tables, _ moment) any {
	s := t.session(c.Key)
	if s == nil {
		return RenameOutcome{Result: RenameNotFound}
	}
	if !t.may(s, c.Expected, c.Grant) {
		return RenameOutcome{Result: RenameStale, Session: *s}
	}
	if other := t.sessionByName(c.Key.Actor, c.Name); c.Name != "" && other != nil && other.Key != c.Key {
		return RenameOutcome{Result: RenameTaken, Session: *other}
	}
	renamed := *s
	renamed.Name = c.Name
	t.put(tableSessions, &renamed)
	return RenameOutcome{Result: Renamed, Session: renamed}
}

// TouchSessions records, for many sessions of one owner at once, when they were
// last used. Owners send it now and then, never on a call's way.
type TouchSessions struct {
	Proposal    `json:"-"`
	Owner       NodeID      `json:"owner"`
	Incarnation Incarnation `json:"incarnation"`
	Touches     []Touch     `json:"touches"`
}

// Touch is the use of one session. Calls is the session's total so far; neither
// it nor the time ever goes back.
type Touch struct {
	Key        surfaces.SessionKey `json:"key"`
	Epoch      Epoch               `json:"epoch"`
	LastUsedAt Timestamp           `json:"last_used_at"`
	Calls      uint64              `json:"calls"`
}

// TouchOutcome answers TouchSessions. Stale lists the keys that the owner does
// not hold under the epoch it gave; the owner must stop serving those.
type TouchOutcome struct {
	Touched int                   `json:"touched"`
	Stale   []surfaces.SessionKey `json:"stale,omitempty"`
}

func (TouchSessions) kind() kind { return kindTouchSessions }

func (c TouchSessions) bounds() error {
	ok := isLife(c.Owner, c.Incarnation) && len(c.Touches) <= MaxTouches
	for _, touch := range c.Touches {
		ok = ok && isKey(touch.Key) && touch.Epoch > 0 && touch.LastUsedAt >= 0
	}
	return checkBounds(ok)
}

func (c TouchSessions) apply(t tables, _ moment) any {
	var out TouchOutcome
	for _, touch := range c.Touches {
		s := t.session(touch.Key)
		if s == nil || !t.granted(s, Grant{Node: c.Owner, Incarnation: c.Incarnation, Epoch: touch.Epoch}) {
			out.Stale = append(out.Stale, touch.Key)
			continue
		}
		used := *s
		used.LastUsedAt = max(s.LastUsedAt, touch.LastUsedAt)
		used.Calls = max(s.Calls, touch.Calls)
		t.put(tableSessions, &used)
		out.Touched++
	}
	return out
}
