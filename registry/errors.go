package registry

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// What can become of a command beside its outcome. Test with errors.Is.
var (
	// ErrNotLeader: the command is not in the log; another node must be asked. The
	// error is a *NotLeaderError.
	ErrNotLeader = errors.New("registry: this node does not lead")
	// ErrUnavailable: the command is surely not in the log, since there is no
	// leader, no quorum, no room, or the registry is closing. It may be sent again.
	ErrUnavailable = errors.New("registry: unavailable")
	// ErrNoQuorum: there is no leader that a majority of the voters follows, as far
	// as this node can see. It is an ErrUnavailable: surely not in the log.
	ErrNoQuorum = fmt.Errorf("%w: there is no leader with a quorum", ErrUnavailable)
	// ErrUnknownOutcome: the command may be applied, now or later, or never. Send it
	// again only with the same request id, which the *UnknownOutcomeError tells.
	ErrUnknownOutcome = errors.New("registry: the outcome is unknown")
	// ErrUnsupported: the mesh's feature level does not know the command.
	ErrUnsupported = errors.New("registry: the mesh does not support the command")
	// ErrMalformed: a field of the command is out of bounds. Nothing was changed.
	ErrMalformed = errors.New("registry: the command is malformed")
	// ErrRequestReused: the request id belongs to another command. Nothing was changed.
	ErrRequestReused = errors.New("registry: the request id was used for another command")
	// ErrForbidden: another node may not have this done. Nothing was changed.
	ErrForbidden = errors.New("registry: another node may not ask for this")
	// ErrLastVoter: the only voter cannot be removed. Nothing was changed.
	ErrLastVoter = errors.New("registry: the last voter cannot be removed")
	// ErrFault: a bug of the registry. Nothing was changed; the log has the details.
	ErrFault = errors.New("registry: a fault of the state machine")
)

// What can keep a registry from opening. Test with errors.Is.
var (
	// ErrLocked: another process has the directory open.
	ErrLocked = errors.New("registry: the directory is in use")
	// ErrDamaged: the directory's content is not whole. No state in it was changed,
	// and nothing is served from it.
	ErrDamaged = errors.New("registry: the directory is damaged")
	// ErrWrongNode: the directory belongs to another node id.
	ErrWrongNode = errors.New("registry: the directory belongs to another node")
	// ErrWrongCluster: the state is that of another mesh. Commands give it too, when
	// only the state that a leader sent has shown it.
	ErrWrongCluster = errors.New("registry: the state belongs to another mesh")
)

// NotLeaderError says whom to ask instead; empty when there is no leader now. It
// may be out of date. It comes only where Config.Forward is not set.
type NotLeaderError struct{ Leader NodeID }

// Error names the leader, if one is known.
func (e *NotLeaderError) Error() string {
	if e.Leader == "" {
		return ErrNotLeader.Error() + "; no leader is known"
	}
	return fmt.Sprintf("%s; %s does", ErrNotLeader, e.Leader)
}

// Is makes the error an ErrNotLeader.
func (e *NotLeaderError) Is(target error) bool { return target == ErrNotLeader }

// UnknownOutcomeError carries the request id to send the command again with.
type UnknownOutcomeError struct {
	Request RequestID
	Cause   error
}

// Error gives the request id and the cause.
func (e *UnknownOutcomeError) Error() string {
	return fmt.Sprintf("%s (request %s): %v", ErrUnknownOutcome, e.Request, e.Cause)
}

// Is makes the error an ErrUnknownOutcome.
func (e *UnknownOutcomeError) Is(target error) bool { return target == ErrUnknownOutcome }

// Unwrap gives the cause, such as context.DeadlineExceeded.
func (e *UnknownOutcomeError) Unwrap() error { return e.Cause }

// notInLog are the failures that surely kept a command out of the log.
var notInLog = []error{raft.ErrEnqueueTimeout, raft.ErrLeadershipTransferInProgress, errUnconfirmed}

// failed gives the answer for a failure of the log. What is not known to be
// harmless is unknown.
func (r *Registry) failed(err error) answer {
	if errors.Is(err, raft.ErrNotLeader) {
		return notLeader(r.otherLeader())
	}
	for _, harmless := range notInLog {
		if errors.Is(err, harmless) {
			return retryLater(err)
		}
	}
	return outcomeUnknown(err)
}

// refusal gives the error of a verdict other than accepted.
func (v verdict) refusal() error {
	switch v {
	case accepted:
		return nil
	case unsupported:
		return ErrUnsupported
	case malformed:
		return ErrMalformed
	case reused:
		return ErrRequestReused
	}
	return ErrFault
}

// Reason says for people why a command has no outcome, of an error that is an
// ErrUnavailable or an ErrUnknownOutcome. The error itself is for the log.
func Reason(err error) string {
	switch {
	case errors.Is(err, ErrNoQuorum):
		return "the mesh's registry takes no changes at the moment: it has no leader that most of its voters follow"
	case errors.Is(err, context.DeadlineExceeded):
		return "the mesh's registry has not answered in time"
	case errors.Is(err, context.Canceled):
		return "the mesh's registry was not waited for any longer"
	}
	return "the mesh's registry takes no changes at the moment"
}
