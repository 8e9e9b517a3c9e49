package registry

import "github.com/locusrun/locus/surfaces"

// MarkLost records that a session's state is gone. The owner proposes it when
// the session's process died and is not rebuilt at once; the leader when the
// owner has surely stopped.
type MarkLost struct {
	Proposal `json:"-"`
	Key      surfaces.SessionKey `json:"key"`
	// Grant is the grant under which the state was held.
	Grant  Grant      `json:"grant"`
	Reason LossReason `json:"reason"`
}

// MarkLostResult says what became of a MarkLost.
type MarkLostResult string

const (
	// MarkedLost: the session is lost now.
	MarkedLost MarkLostResult = "marked"
	// AlreadyLost: it was lost before, under the same grant; the first reason stands.
	AlreadyLost MarkLostResult = "already_lost"
	// MarkNotFound: there is no such session.
	MarkNotFound MarkLostResult = "not_found"
	// MarkStale: the session is held under another grant. Session is its record.
	MarkStale MarkLostResult = "stale_epoch"
)

// MarkLostOutcome answers MarkLost. Session is the record as it is now.
type MarkLostOutcome struct {
	Result  MarkLostResult `json:"result"`
	Session Session        `json:"session,omitzero"`
}

func (MarkLost) kind() kind { return kindMarkLost }

func (c MarkLost) bounds() error {
	return checkBounds(isKey(c.Key), isGrant(c.Grant), isReason(c.Reason))
}

func (c MarkLost) apply(t tables, m moment) any {
	s := t.session(c.Key)
	switch {
	case s == nil:
		return MarkLostOutcome{Result: MarkNotFound}
	case s.Grant() != c.Grant:
		return MarkLostOutcome{Result: MarkStale, Session: *s}
	case s.State == SessionLost:
		return MarkLostOutcome{Result: AlreadyLost, Session: *s}
	}
	return MarkLostOutcome{Result: MarkedLost, Session: t.lose(s, c.Reason, m)}
}

// RebuildSession makes a session live again, empty, under a new epoch. The loss
// is remembered until a caller was told (AckLoss). A live session can be rebuilt
// only by its own owner, who gives the reason for the loss; that saves the
// MarkLost before it.
type RebuildSession struct {
	Proposal `json:"-"`
	Key      surfaces.SessionKey `json:"key"`
	// Expected is the epoch whose state is gone.
	Expected    Epoch       `json:"expected"`
	Owner       NodeID      `json:"owner"`
	Incarnation Incarnation `json:"incarnation"`
	// Reason is needed to rebuild a live session, and not looked at otherwise.
	Reason LossReason `json:"reason,omitempty"`
}

// RebuildResult says what became of a RebuildSession.
type RebuildResult string

const (
	// Rebuilt: the session is live under a new epoch. Session is its record.
	Rebuilt RebuildResult = "rebuilt"
	// RebuildNotFound: there is no such session.
	RebuildNotFound RebuildResult = "not_found"
	// RebuildStale: the session has another epoch than expected. Session is its record.
	RebuildStale RebuildResult = "stale_epoch"
	// StillOwned: the session is not lost, and the proposer may not declare it so.
	// Session is its record.
	StillOwned RebuildResult = "still_owned"
	// RebuildDraining: the proposer's node takes no sessions that were elsewhere.
	// Session is its record.
	RebuildDraining RebuildResult = "draining"
	// RebuildNotCurrent: the proposer is not known, not up, or in another life.
	RebuildNotCurrent RebuildResult = "not_current"
)

// RebuildOutcome answers RebuildSession. What Session holds depends on Result.
type RebuildOutcome struct {
	Result  RebuildResult `json:"result"`
	Session Session       `json:"session,omitzero"`
}

func (RebuildSession) kind() kind { return kindRebuildSession }

func (c RebuildSession) bounds() error {
	return checkBounds(isKey(c.Key), isLife(c.Owner, c.Incarnation), c.Expected > 0, c.Reason == "" || isReason(c.Reason))
}

func (c RebuildSession) apply(t tables, m moment) any {
	if !t.holds(c.Owner, c.Incarnation) {
		return RebuildOutcome{Result: RebuildNotCurrent}
	}
	s := t.session(c.Key)
	switch {
	case s == nil:
		return RebuildOutcome{Result: RebuildNotFound}
	case s.Epoch != c.Expected:
		return RebuildOutcome{Result: RebuildStale, Session: *s}
	case s.Owner != c.Owner && t.node(c.Owner).Draining:
		return RebuildOutcome{Result: RebuildDraining, Session: *s}
	case s.State != SessionLost:
		if c.Reason == "" || !t.granted(s, Grant{Node: c.Owner, Incarnation: c.Incarnation, Epoch: c.Expected}) {
			return RebuildOutcome{Result: StillOwned, Session: *s}
		}
		lost := t.lose(s, c.Reason, m)
		s = &lost
	}
	return RebuildOutcome{Result: Rebuilt, Session: t.grant(s, c.Owner, c.Incarnation, m)}
}

// AckLoss asks whether the caller who is being answered is the one to be told of
// a loss. Exactly one AckLoss per loss is answered with TellLoss.
type AckLoss struct {
	Proposal `json:"-"`
	Key      surfaces.SessionKey `json:"key"`
	Grant    Grant               `json:"grant"`
	// Lost is the epoch of the loss (Loss.Epoch).
	Lost Epoch `json:"lost"`
}

// AckResult says what became of an AckLoss.
type AckResult string

const (
	// TellLoss: this caller is the one to be told, of Loss.
	TellLoss AckResult = "tell"
	// AlreadyTold: another caller was told.
	AlreadyTold AckResult = "already_told"
	// AckNoLoss: the session has no such loss (any more), or is gone.
	AckNoLoss AckResult = "no_loss"
	// AckStale: the proposer's grant is not the session's present one.
	AckStale AckResult = "stale_epoch"
)

// AckOutcome answers AckLoss.
type AckOutcome struct {
	Result AckResult `json:"result"`
	Loss   Loss      `json:"loss,omitzero"`
}

func (AckLoss) kind() kind { return kindAckLoss }

func (c AckLoss) bounds() error { return checkBounds(isKey(c.Key), isGrant(c.Grant), c.Lost > 0) }

func (c AckLoss) apply(t tables, _ moment) any {
	s := t.session(c.Key)
	switch {
	case s == nil:
		return AckOutcome{Result: AckNoLoss}
	case !t.granted(s, c.Grant):
		return AckOutcome{Result: AckStale}
	case s.Loss.IsZero() || s.Loss.Epoch != c.Lost:
		return AckOutcome{Result: AckNoLoss}
	case s.Loss.Told:
		return AckOutcome{Result: AlreadyTold, Loss: s.Loss}
	}
	told := *s
	told.Loss.Told = true
	t.put(tableSessions, &told)
	return AckOutcome{Result: TellLoss, Loss: told.Loss}
}
