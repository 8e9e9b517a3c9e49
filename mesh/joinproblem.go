package mesh

import (
	"errors"
	"fmt"

	"github.com/locusrun/locus/certs"
)

// JoinProblem explains to a person why a machine could not join a mesh by its token.
type JoinProblem struct {
	// Message is one sentence. Advice says what to do next.
	Message, Advice string
	// Unavailable is true if the same attempt may succeed later. Otherwise the address, the
	// token or the machine has to change.
	Unavailable bool
	// Err is the error behind it.
	Err error
}

// Error returns Message.
func (p *JoinProblem) Error() string { return p.Message }

// Unwrap returns the underlying error.
func (p *JoinProblem) Unwrap() error { return p.Err }

const tokenStillGood = "the token is still good"

// ExplainJoin explains an error of certs.ParseToken or Enrol. It returns nil for any other
// error. addr is the address that the user gave; if it is empty, that of the error is
// named. newToken says how to get another token.
func ExplainJoin(err error, addr, newToken string) *JoinProblem {
	p := &JoinProblem{Err: err}
	var bad *certs.TokenError
	var nobody *UnreachableError
	there := errors.As(err, &nobody) && (addr == "" || nobody.Peer == addr)
	if there {
		addr = nobody.Peer
	}
	switch {
	case errors.As(err, &bad):
		p.Message, p.Advice = faultOf(bad.Problem, newToken)
	case errors.Is(err, ErrRefused):
		p.Message = fmt.Sprintf("the mesh at %s does not take this token: it is used up, expired, revoked, or was never one of that mesh", addr)
		p.Advice = newToken
	case errors.Is(err, certs.ErrNotYetValid), errors.Is(err, certs.ErrExpired):
		p.Message = fmt.Sprintf("the clocks of this machine and of the node at %s are too far apart for certificates", addr)
		p.Advice = "set the clock that is wrong, then try again: " + tokenStillGood
	case errors.Is(err, certs.ErrWrongPin), errors.Is(err, ErrRejected) && there:
		p.Message = fmt.Sprintf("the node at %s is not of the mesh that the token is for", addr)
		p.Advice = "check the address, or " + newToken
	case errors.Is(err, ErrVersion):
		p.Message = fmt.Sprintf("the node at %s and this machine share no version of the protocol", addr)
		p.Advice = "run the same version of locus on both"
	case errors.Is(err, ErrTryLater):
		p.Message, p.Unavailable = fmt.Sprintf("the mesh at %s can let nobody in just now", addr), true
		p.Advice = "see with locus status, on a node of it, whether most of its voters are up, then try again: " + tokenStillGood
	case there:
		p.Message, p.Unavailable = fmt.Sprintf("no node answers by UDP at %s", addr), true
		p.Advice = "give the mesh address of a node that is up, as its ready line shows it after listen=, and let UDP through to it"
	default:
		return nil
	}
	return p
}

// faultOf explains a token that cannot be parsed.
func faultOf(problem certs.TokenProblem, newToken string) (message, advice string) {
	switch problem {
	case certs.TokenForeign:
		return "what was given as token is not a join token", newToken + "; an actor's token is for its calls only"
	case certs.TokenOtherVersion:
		return "the token is " + string(problem), "run the same version of locus on all machines, then " + newToken
	}
	return "the token is " + string(problem), "copy the whole token once more; if that does not help, " + newToken
}
