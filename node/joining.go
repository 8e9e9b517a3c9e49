package node

import (
	"errors"
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
type JoinProblem struct {
	// Message is one sentence, and Advice what to do next.
	Message, Advice string
	// Unavailable says that the same may go well another time; else something that
	// was given has to change.
	Unavailable bool
	Err         error
}

// Error gives the sentence.
func (e *JoinProblem) Error() string { return e.Message }

// Unwrap gives what the parts of the node said.
func (e *JoinProblem) Unwrap() error { return e.Err }

const makeToken = "make a token on a node of the mesh, with: locus token create --role node"

// CheckToken says what is wrong with Token before anything is asked of anybody: a
// *JoinProblem. Whether the mesh takes a good token is another matter.
func (c Config) CheckToken() error {
	token, err := certs.ParseToken(c.Token)
	var bad *certs.TokenError
	switch {
	case errors.As(err, &bad):
		return tokenProblem(bad)
	case err != nil:
		return err
	case token.Role != certs.RoleNode:
		return &JoinProblem{Message: fmt.Sprintf("the token is for the role %s, and this machine is to be a node", token.Role), Advice: makeToken}
	}
	return nil
}

func tokenProblem(bad *certs.TokenError) *JoinProblem {
	p := &JoinProblem{Message: "the token is " + string(bad.Problem), Advice: "copy the whole token once more; if that does not help, " + makeToken, Err: bad}
	switch bad.Problem {
	case certs.TokenForeign:
		p.Message, p.Advice = "what was given as token is not a join token", makeToken+"; an actor's token is for its calls only"
	case certs.TokenOtherVersion:
		p.Advice = "run the same version of locus on all nodes, then " + makeToken
	}
	return p
}

// JoinProblem finds in an error of Run why the node could not join; nil when the
// error is about something else.
func (c Config) JoinProblem(err error) *JoinProblem {
	if c.Join == "" {
		return nil
	}
	var nobody *mesh.UnreachableError
	p := &JoinProblem{Err: err}
	switch {
	case errors.Is(err, mesh.ErrRefused):
		p.Message = fmt.Sprintf("the mesh at %s does not take this token: it is used up, expired, revoked, or was never one of that mesh", c.Join)
		p.Advice = makeToken
	case errors.Is(err, certs.ErrNotYetValid), errors.Is(err, certs.ErrExpired):
		p.Message = fmt.Sprintf("the clocks of this machine and of the node at %s are too far apart for certificates", c.Join)
		p.Advice = "set the clock that is wrong, then try again: the token is still good"
	case errors.Is(err, certs.ErrWrongPin), errors.Is(err, mesh.ErrRejected) && errors.As(err, &nobody) && nobody.Peer == c.Join:
		p.Message = fmt.Sprintf("the node at %s is not of the mesh that the token is for", c.Join)
		p.Advice = "check the address, or " + makeToken
	case errors.Is(err, mesh.ErrVersion):
		p.Message = fmt.Sprintf("the node at %s and this one share no version of the protocol", c.Join)
		p.Advice = "run the same version of locus on all nodes"
	case errors.Is(err, mesh.ErrTryLater):
		p.Message = fmt.Sprintf("the mesh at %s can let nobody in just now", c.Join)
		p.Advice = "see with locus status whether most of its voters are up, then try again: the token is still good"
		p.Unavailable = true
	case errors.As(err, &nobody) && nobody.Peer == c.Join:
		p.Message = fmt.Sprintf("no node answers at %s", c.Join)
		p.Advice = "give the mesh address of a node that is up, as its ready line shows it after listen=, and let UDP through to it"
		p.Unavailable = true
	default:
		return nil
	}
	return p
}
