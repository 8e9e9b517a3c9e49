package certs

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
)

// Phase is the phase of a root rotation.
type Phase string

const (
	// PhaseSteady: one root is trusted and issues.
	PhaseSteady Phase = "steady"
	// PhaseTrustBoth: the current root issues; the next one is trusted too.
	PhaseTrustBoth Phase = "trust_both"
	// PhaseIssueNew: the next root issues; the current one is still trusted.
	PhaseIssueNew Phase = "issue_new"
)

// ErrBadPhase: the step is not allowed in the current phase.
var ErrBadPhase = errors.New("certs: no such step in this phase of the rotation")

// NotReadyError says that a step has to wait, because it would cut off these members.
type NotReadyError struct{ Waiting []Identity }

func (e *NotReadyError) Error() string {
	return fmt.Sprintf("certs: the rotation waits for %d members", len(e.Waiting))
}

// Rotation is the state of replacing one root by another without interruption:
//
//	steady -> trust_both -> issue_new -> steady with the next root
//
// It can be rolled back from trust_both to steady and from issue_new to trust_both. It is a
// value that the registry stores; every step is a pure function.
type Rotation struct {
	Phase Phase `json:"phase"`
	// Current is the old root in DER. Next is the new one; nil in the steady phase.
	Current []byte `json:"current"`
	Next    []byte `json:"next,omitempty"`
}

// Report is the status of a member, which decides whether a step is possible.
type Report struct {
	Identity Identity `json:"identity"`
	// Trusts are the roots that it trusts.
	Trusts []Pin `json:"trusts"`
	// Issuer is the trusted root that signed its certificate; "" if none did so directly.
	Issuer Pin `json:"issuer"`
}

// Report returns the status of these credentials.
func (c *Credentials) Report() Report {
	present := c.present.Load()
	return Report{c.identity, present.trust.Pins(), present.issuer}
}

// Steady is the rotation state of a mesh with one root.
func Steady(root *x509.Certificate) Rotation {
	return Rotation{Phase: PhaseSteady, Current: root.Raw}
}

// Trust returns the roots that every member has to trust in this phase; the first one issues.
func (r Rotation) Trust() (Trust, error) {
	var ders [][]byte
	switch r.Phase {
	case PhaseSteady:
		ders = [][]byte{r.Current}
	case PhaseTrustBoth:
		ders = [][]byte{r.Current, r.Next}
	case PhaseIssueNew:
		ders = [][]byte{r.Next, r.Current}
	default:
		return Trust{}, fmt.Errorf("%w: %.40q", ErrBadPhase, r.Phase)
	}
	var trust Trust
	for _, der := range ders {
		root, err := x509.ParseCertificate(der)
		if err != nil {
			return Trust{}, fmt.Errorf("%w: %w", ErrBadTrust, err)
		}
		trust.Roots = append(trust.Roots, root)
	}
	_, err := trust.Cluster()
	return trust, err
}

// TokenPin returns the pin for new join tokens: that of Current, until Next replaces it. Until
// then every node can show a chain to that root, through the cross-certificate if needed.
func (r Rotation) TokenPin() (Pin, error) {
	root, err := x509.ParseCertificate(r.Current)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrBadTrust, err)
	}
	return PinOf(root), nil
}

// Begin goes from steady to trust_both.
func (r Rotation) Begin(next *x509.Certificate) (Rotation, error) {
	if r.Phase != PhaseSteady {
		return r, fmt.Errorf("%w: begin in %s", ErrBadPhase, r.Phase)
	}
	if _, err := checkRoot(next); err != nil {
		return r, err
	}
	begun := Rotation{PhaseTrustBoth, r.Current, next.Raw}
	if _, err := begun.Trust(); err != nil {
		return r, err
	}
	return begun, nil
}

// Advance goes from trust_both to issue_new once every member trusts the next root, and from
// there to steady once every member has a certificate issued by it. live are the members that
// must not be cut off. A sleeping one may be left out; it comes back with a RecoverRequest. A
// *NotReadyError names the members to wait for.
func (r Rotation) Advance(live []Report) (Rotation, error) {
	switch r.Phase {
	case PhaseTrustBoth:
		return r.step(Rotation{PhaseIssueNew, r.Current, r.Next}, live)
	case PhaseIssueNew:
		return r.step(Rotation{Phase: PhaseSteady, Current: r.Next}, live)
	}
	return r, fmt.Errorf("%w: advance in %s", ErrBadPhase, r.Phase)
}

// Rollback goes from issue_new to trust_both at any time, and from there to steady once every
// live member has a certificate issued by the current root.
func (r Rotation) Rollback(live []Report) (Rotation, error) {
	switch r.Phase {
	case PhaseIssueNew:
		return Rotation{PhaseTrustBoth, r.Current, r.Next}, nil
	case PhaseTrustBoth:
		return r.step(Rotation{Phase: PhaseSteady, Current: r.Current}, live)
	}
	return r, fmt.Errorf("%w: roll back in %s", ErrBadPhase, r.Phase)
}

// step returns the new state if it cuts off no live member.
func (r Rotation) step(to Rotation, live []Report) (Rotation, error) {
	trust, err := to.Trust()
	if err != nil {
		return r, err
	}
	needed := PinOf(trust.Issuer())
	var waiting []Identity
	for _, report := range live {
		ready := report.Issuer == needed
		if to.Phase == PhaseIssueNew {
			ready = slices.Contains(report.Trusts, needed)
		}
		if !ready {
			waiting = append(waiting, report.Identity)
		}
	}
	if len(waiting) > 0 {
		return r, &NotReadyError{waiting}
	}
	return to, nil
}
