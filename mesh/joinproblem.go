package mesh

import (
	"errors"
	"fmt"

	"github.com/locusrun/locus/certs"
)

// JoinProblem says for people why a machine has not come into a mesh by its token.
type JoinProblem struct {
	// Message is one sentence, and Advice what to do next.
	Message, Advice string
	// Unavailable says that the same may go well another time; else something that was
	// given has to change.
	Unavailable bool
	Err         error
}

// Error gives the sentence.
func (p *JoinProblem) Error() string { return p.Message }

// Unwrap gives what the parts of the program said.
func (p *JoinProblem) Unwrap() error { return p.Err }

const tokenStillGood = "the token is still good"

// ExplainJoin makes a *JoinProblem of an error of certs.ParseToken or Enrol; nil when it is
// about something else. addr is the address that was given, empty for whichever was tried,
// and newToken says how to get another token.
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

// faultOf says what is wrong with the text of a token, and what to do about it.
func faultOf(problem certs.TokenProblem, newToken string) (message, advice string) {
	switch problem {
	case certs.TokenForeign:
		return "what was given as token is not a join token", newToken + "; an actor's token is for its calls only"
	case certs.TokenOtherVersion:
		return "the token is " + string(problem), "run the same version of locus on all machines, then " + newToken
	}
	return "the token is " + string(problem), "copy the whole token once more; if that does not help, " + newToken
}
