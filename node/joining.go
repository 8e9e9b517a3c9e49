package node

import (
	"fmt"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/node/member"
	"github.com/locusrun/locus/registry"
)

// Joined reports whether the data directory belongs to a member of a mesh; Join and Token
// have no effect then. The error is from the file system.
func (c Config) Joined() (bool, error) { return member.Exists(c.path("member")) }

// ErrLeftBehind is wrapped by the error of Run if a newer release has upgraded the mesh, or
// this data directory, beyond this release.
var ErrLeftBehind = registry.ErrNewerLevel

// JoinProblem explains why a node could not join a mesh.
type JoinProblem = mesh.JoinProblem

const makeToken = "make a token on a node of the mesh, with: locus token create --role node"

// CheckToken checks the syntax and the role of Token without asking the mesh. Its error is
// a *JoinProblem. The mesh may still refuse the token.
func (c Config) CheckToken() error {
	token, err := certs.ParseToken(c.Token)
	switch {
	case err != nil:
		if p := mesh.ExplainJoin(err, c.Join, makeToken); p != nil {
			return p
		}
		return err
	case token.Role != certs.RoleNode:
		return &JoinProblem{Message: fmt.Sprintf("the token is for the role %s, and this machine is to be a node", token.Role), Advice: makeToken}
	}
	return nil
}

// JoinProblem returns the reason in an error of Run why the node could not join; nil if the
// error has another cause.
func (c Config) JoinProblem(err error) *JoinProblem {
	if c.Join == "" {
		return nil
	}
	return mesh.ExplainJoin(err, c.Join, makeToken)
}
