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

// Problem explains why a machine could not be linked.
type Problem = mesh.JoinProblem

const makeToken = "make a token on a node of the mesh, with: locus token create --role link (or vm)"

// Explain explains an error of Open, Run or Leave to a person. It returns nil if it knows
// no explanation. join is the address that the user gave.
func Explain(err error, join string) *Problem {
	p := &Problem{Err: err}
	var role *RoleError
	switch {
	case errors.Is(err, ErrUnlinked):
		p.Message, p.Advice = "this machine is not linked any more: its owner or the mesh has unlinked it", "link it again with a new token: "+makeToken
	case errors.Is(err, ErrNoToken):
		p.Message, p.Advice = "this machine is not linked yet", "give --join ADDR and --token TOKEN; "+makeToken
	case errors.As(err, &role) && role.Stored:
		p.Message, p.Advice = role.Error(), fmt.Sprintf("give --as %s, or another directory with --data", role.Actual)
	case errors.As(err, &role):
		p.Message, p.Advice = role.Error(), makeToken
		if role.Actual != certs.RoleNode {
			p.Advice = fmt.Sprintf("give --as %s, or %s", role.Actual, makeToken)
		}
	case errors.Is(err, ErrLocked):
		p.Message, p.Advice = "another locus link runs in this directory", "use that one, or give another directory with --data"
	default:
		return mesh.ExplainJoin(err, join, makeToken)
	}
	return p
}
