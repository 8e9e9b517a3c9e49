package registry

import "github.com/locusrun/locus/surfaces"

// MarkLost records that a session's state is gone. Any node may propose it for the current
// grant: the owner when the session's process died, or the node whose attempt was lost.
type MarkLost struct {
	Proposal `json:"-"`
	Key      surfaces.SessionKey `json:"key"`
	// Grant is the grant under which the state was held.
	Grant  Grant      `json:"grant"`
	Reason LossReason `json:"reason"`
}

// MarkLostResult is the result of a MarkLost.
type MarkLostResult string

const (
	// MarkedLost: the session is lost now.
	MarkedLost MarkLostResult = "marked"
	// AlreadyLost: it was already lost under the same grant; the first reason is kept.
	AlreadyLost MarkLostResult = "already_lost"
	// MarkNotFound: there is no such session.
	MarkNotFound MarkLostResult = "not_found"
	// MarkStale: the session is held under another grant. Session is its record.
	MarkStale MarkLostResult = "stale_epoch"
)

// MarkLostOutcome answers MarkLost. Session is the current record.
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

// RebuildSession makes a session live again, with empty state and a new epoch. The loss is
// kept until a caller was told of it (AckLoss). A live session can be rebuilt only by its own
// owner, which gives the reason of the loss; this saves a MarkLost before.
type RebuildSession struct {
	Proposal `json:"-"`
	Key      surfaces.SessionKey `json:"key"`
	// Expected is the epoch whose state is gone.
	Expected    Epoch       `json:"expected"`
	Owner       NodeID      `json:"owner"`
	Incarnation Incarnation `json:"incarnation"`
	// Reason is required to rebuild a live session, and ignored otherwise.
	Reason LossReason `json:"reason,omitempty"`
}

// RebuildResult is the result of a RebuildSession.
type RebuildResult string

const (
	// Rebuilt: the session is live under a new epoch. Session is its record.
	Rebuilt RebuildResult = "rebuilt"
	// RebuildNotFound: there is no such session.
	RebuildNotFound RebuildResult = "not_found"
	// RebuildStale: the session has another epoch than expected. Session is its record.
	RebuildStale RebuildResult = "stale_epoch"
	// StillOwned: the session is not lost, and the proposer may not declare it lost.
	// Session is its record.
	StillOwned RebuildResult = "still_owned"
	// RebuildDraining: the proposing node takes over no sessions of other nodes.
	// Session is its record.
	RebuildDraining RebuildResult = "draining"
	// RebuildNotCurrent: the proposing node is unknown, not up, or has another incarnation.
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

// AckLoss asks whether the answer that is about to be sent must report a loss. Exactly one
// AckLoss per loss is answered with TellLoss.
type AckLoss struct {
	Proposal `json:"-"`
	Key      surfaces.SessionKey `json:"key"`
	Grant    Grant               `json:"grant"`
	// Lost is the epoch of the loss (Loss.Epoch).
	Lost Epoch `json:"lost"`
}

// AckResult is the result of an AckLoss.
type AckResult string

const (
	// TellLoss: this answer has to report Loss.
	TellLoss AckResult = "tell"
	// AlreadyTold: another caller was told.
	AlreadyTold AckResult = "already_told"
	// AckNoLoss: the session has no such loss, or no longer exists.
	AckNoLoss AckResult = "no_loss"
	// AckStale: the grant is not the session's current one.
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
