package registry

import "github.com/locusrun/locus/surfaces"

// CloseSession closes a session and frees its key, its name and its place in the limit.
// Without Grant and Expected it closes the session unconditionally. It is idempotent: a
// session that does not exist is CloseNotFound.
type CloseSession struct {
	Proposal `json:"-"`
	Key      surfaces.SessionKey `json:"key"`
	// Expected, if not 0, restricts the command to that epoch.
	Expected Epoch `json:"expected,omitempty"`
	// Grant is set if the owner closes the session by itself.
	Grant Grant `json:"grant,omitzero"`
}

// CloseResult is the result of a CloseSession.
type CloseResult string

const (
	// Closed: the session was closed by this command. Session is its last record.
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

// may reports whether a command may change a session: one from its owner needs the current
// grant, one on behalf of a caller the expected epoch, if given.
func (t tables) may(s *Session, expected Epoch, g Grant) bool {
	if g != (Grant{}) && !t.granted(s, g) {
		return false
	}
	return expected == 0 || expected == s.Epoch
}

// RenameSession changes or removes the name of a session.
type RenameSession struct {
	Proposal `json:"-"`
	Key      surfaces.SessionKey `json:"key"`
	// Name is the new name; empty for none.
	Name string `json:"name,omitempty"`
	// Expected, if not 0, restricts the command to that epoch.
	Expected Epoch `json:"expected,omitempty"`
	// Grant is set if the owner renames the session by itself.
	Grant Grant `json:"grant,omitzero"`
}

// RenameResult is the result of a RenameSession.
type RenameResult string

const (
	// Renamed: the session has the name. Session is its record.
	Renamed RenameResult = "renamed"
	// RenameNotFound: there is no such session.
	RenameNotFound RenameResult = "not_found"
	// RenameTaken: the name belongs to another session, whose record is Session.
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

// TouchSessions records when sessions of one owner were last used, in a batch. Owners send it
// in the background, never as part of a call.
type TouchSessions struct {
	Proposal    `json:"-"`
	Owner       NodeID      `json:"owner"`
	Incarnation Incarnation `json:"incarnation"`
	Touches     []Touch     `json:"touches"`
}

// Touch is the last use of one session. Calls is the session's total so far. Neither value
// ever decreases.
type Touch struct {
	Key surfaces.SessionKey `json:"key"`
	// Epoch must be the session's present one, or the touch is stale.
	Epoch      Epoch     `json:"epoch"`
	LastUsedAt Timestamp `json:"last_used_at"`
	Calls      uint64    `json:"calls"`
}

// TouchOutcome answers TouchSessions. Stale lists the sessions that the node does not own
// under the epoch that it gave; it must stop serving them.
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
