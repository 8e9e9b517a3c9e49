package registry

import (
	"cmp"
	"slices"

	"github.com/locusrun/locus/surfaces"
)

// ClaimSession creates a session or takes over a lost one, under a new epoch.
type ClaimSession struct {
	Proposal `json:"-"`
	Key      surfaces.SessionKey `json:"key"`
	// Name is optional. A lost session keeps its name.
	Name string `json:"name,omitempty"`
	// Expected is the epoch of the lost session to take over. With 0 a lost session is
	// taken over whatever its epoch, or a new session created.
	Expected Epoch `json:"expected,omitempty"`
	// Owner and Incarnation name the node that is to own the session.
	Owner       NodeID      `json:"owner"`
	Incarnation Incarnation `json:"incarnation"`
}

// ClaimResult is the result of a ClaimSession.
type ClaimResult string

const (
	// Claimed: the claimer owns the session now. Session is its record; its Loss says
	// whether state was lost before.
	Claimed ClaimResult = "claimed"
	// AlreadyOwned: the session has an owner, perhaps the claimer. Session is its record.
	AlreadyOwned ClaimResult = "already_owned"
	// NameTaken: the name belongs to another session, whose record is Session.
	NameTaken ClaimResult = "name_taken"
	// NameDiffers: the lost session has another name. Session is its record.
	NameDiffers ClaimResult = "name_differs"
	// LimitReached: the actor has MaxSessions counted sessions. Session is the least
	// recently used of them.
	LimitReached ClaimResult = "limit"
	// ClaimStale: the session has another epoch than expected, or does not exist. Session
	// is its record, if any.
	ClaimStale ClaimResult = "stale_epoch"
	// ClaimNotCurrent: the claiming node is unknown, not up, or has another incarnation.
	ClaimNotCurrent ClaimResult = "not_current"
	// ClaimDraining: the claiming node takes no new sessions.
	ClaimDraining ClaimResult = "draining"
	// ClaimNoActor: the actor does not exist or has ended.
	ClaimNoActor ClaimResult = "no_actor"
)

// ClaimOutcome answers ClaimSession. What Session holds depends on Result.
type ClaimOutcome struct {
	Result  ClaimResult `json:"result"`
	Session Session     `json:"session,omitzero"`
}

func (ClaimSession) kind() kind { return kindClaimSession }

func (c ClaimSession) bounds() error {
	return checkBounds(isKey(c.Key), isSessionName(c.Name), isLife(c.Owner, c.Incarnation))
}

func (c ClaimSession) apply(t tables, m moment) any {
	if !t.holds(c.Owner, c.Incarnation) {
		return ClaimOutcome{Result: ClaimNotCurrent}
	}
	if t.node(c.Owner).Draining {
		return ClaimOutcome{Result: ClaimDraining}
	}
	if a := t.actor(c.Key.Actor); a == nil || a.Ended() {
		return ClaimOutcome{Result: ClaimNoActor}
	}
	have := t.session(c.Key)
	if refused := c.against(have); refused != "" {
		session, _ := valueOf(have)
		return ClaimOutcome{Result: refused, Session: session}
	}
	if other := t.sessionByName(c.Key.Actor, c.Name); c.Name != "" && other != nil && other.Key != c.Key {
		return ClaimOutcome{Result: NameTaken, Session: *other}
	}
	if have != nil {
		s := t.grant(have, c.Owner, c.Incarnation, m)
		if s.Name != c.Name && c.Name != "" {
			s.Name = c.Name
			t.put(tableSessions, &s)
		}
		return ClaimOutcome{Result: Claimed, Session: s}
	}
	if oldest, full := t.full(c.Key); full {
		return ClaimOutcome{Result: LimitReached, Session: *oldest}
	}
	s := t.grant(&Session{Key: c.Key, Name: c.Name, CreatedAt: m.at}, c.Owner, c.Incarnation, m)
	return ClaimOutcome{Result: Claimed, Session: s}
}

// against returns why the session's record, if any, does not allow the claim; "" if it does.
func (c ClaimSession) against(have *Session) ClaimResult {
	switch {
	case have == nil && c.Expected != 0:
		return ClaimStale
	case have == nil:
		return ""
	case c.Expected != 0 && have.Epoch != c.Expected:
		return ClaimStale
	case have.State != SessionLost:
		return AlreadyOwned
	case c.Name != "" && have.Name != "" && have.Name != c.Name:
		return NameDiffers
	}
	return ""
}

// grant makes a session live, with a new owner and epoch.
func (t tables) grant(s *Session, owner NodeID, life Incarnation, m moment) Session {
	granted := *s
	granted.Owner, granted.Incarnation, granted.Epoch = owner, life, t.epoch(m)
	granted.State = SessionLive
	granted.LastUsedAt = max(s.LastUsedAt, m.at)
	t.put(tableSessions, &granted)
	return granted
}

// full reports whether a new session with this key would exceed the limit, and returns the
// least recently used counted session.
func (t tables) full(key surfaces.SessionKey) (oldest *Session, full bool) {
	if key.IsPlan() {
		return nil, false
	}
	counted := slices.DeleteFunc(t.sessionsOf(key.Actor), func(s *Session) bool { return !s.Counted() })
	if len(counted) < MaxSessions {
		return nil, false
	}
	// Deterministic: the list is in key order, and MinFunc returns the first of equals.
	return slices.MinFunc(counted, func(a, b *Session) int { return cmp.Compare(a.LastUsedAt, b.LastUsedAt) }), true
}
