package node

import (
	"fmt"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/node/member"
	"github.com/locusrun/locus/registry"
)

// Joined reports whether the data directory belongs to a member of a mesh, which
// has no use for Join and Token any more. The error is of the disk.
func (c Config) Joined() (bool, error) { return member.Exists(c.path("member")) }

// ErrLeftBehind is in the error of Run where a newer release has taken the mesh, or
// this data directory, to what this release does not know.
var ErrLeftBehind = registry.ErrNewer

// JoinProblem says why a node has not become a member of a mesh.
type JoinProblem = mesh.JoinProblem

const makeToken = "make a token on a node of the mesh, with: locus token create --role node"

// CheckToken says what is wrong with Token before anything is asked of anybody: a
// *JoinProblem. Whether the mesh takes a good token is another matter.
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

// JoinProblem finds in an error of Run why the node could not join; nil when the
// error is about something else.
func (c Config) JoinProblem(err error) *JoinProblem {
	if c.Join == "" {
		return nil
	}
	return mesh.ExplainJoin(err, c.Join, makeToken)
}
