package agentlink

import (
	"errors"
	"fmt"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
)

// The roles of machines, for Config.Role.
const (
	RoleLink = certs.RoleLink
	RoleVM   = certs.RoleVM
)

// Problem says why a machine could not be linked.
type Problem struct {
	// Message is one sentence, and Advice what to do next.
	Message, Advice string
	// Unavailable says that the same may go well another time; else something that was
	// given has to change.
	Unavailable bool
	Err         error
}

// Error gives the sentence.
func (p *Problem) Error() string { return p.Message }

// Unwrap gives what the parts of the link said.
func (p *Problem) Unwrap() error { return p.Err }

const (
	makeToken = "make a token on a node of the mesh, with: locus token create --role link (or vm)"
	stillGood = "the token is still good"
)

// Explain makes a *Problem of an error of Open, Run or Leave; nil when there is nothing
// to explain about it. join is the address that was given.
func Explain(err error, join string) *Problem {
	p := &Problem{Err: err}
	var bad *certs.TokenError
	var role *RoleError
	var nobody *mesh.UnreachableError
	switch {
	case errors.Is(err, ErrUnlinked):
		p.Message, p.Advice = "this machine is not linked any more: its owner or the mesh has unlinked it", "link it again with a new token: "+makeToken
	case errors.Is(err, ErrNoToken):
		p.Message, p.Advice = "this machine is not linked yet", "give --join ADDR and --token TOKEN; "+makeToken
	case errors.As(err, &role) && role.Kept:
		p.Message, p.Advice = role.Error(), fmt.Sprintf("give --as %s, or another directory with --data", role.Has)
	case errors.As(err, &role):
		p.Message, p.Advice = role.Error(), makeToken
		if role.Has != certs.RoleNode {
			p.Advice = fmt.Sprintf("give --as %s, or %s", role.Has, makeToken)
		}
	case errors.Is(err, ErrHeld):
		p.Message, p.Advice = "another locus link runs in this directory", "use that one, or give another directory with --data"
	case errors.As(err, &bad):
		p.Message, p.Advice = "the token is "+string(bad.Problem), "copy the whole token once more; if that does not help, "+makeToken
	case errors.Is(err, mesh.ErrRefused):
		p.Message, p.Advice = fmt.Sprintf("the mesh at %s does not take this token: it is used up, expired, revoked, or was never one of that mesh", join), makeToken
	case errors.Is(err, certs.ErrNotYetValid), errors.Is(err, certs.ErrExpired):
		p.Message = fmt.Sprintf("the clocks of this machine and of the node at %s are too far apart for certificates", join)
		p.Advice = "set the clock that is wrong, then try again: " + stillGood
	case errors.Is(err, certs.ErrWrongPin), errors.Is(err, mesh.ErrRejected):
		p.Message, p.Advice = fmt.Sprintf("the node at %s is not of the mesh that the token is for", join), "check the address, or "+makeToken
	case errors.Is(err, mesh.ErrVersion):
		p.Message, p.Advice = fmt.Sprintf("the node at %s and this machine share no version of the protocol", join), "run the same version of locus on both"
	case errors.Is(err, mesh.ErrTryLater):
		p.Message, p.Advice, p.Unavailable = fmt.Sprintf("the mesh at %s can let nobody in just now", join), "try again later: "+stillGood, true
	case errors.As(err, &nobody):
		p.Message, p.Unavailable = fmt.Sprintf("no node answers by UDP at %s", nobody.Peer), true
		p.Advice = "give the mesh address of a node that is up, as its ready line shows it after listen=, and let UDP through to it"
	default:
		return nil
	}
	return p
}
