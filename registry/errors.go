package registry

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// The errors of commands, for errors.Is. A command that fails has no outcome.
var (
	// ErrNotLeader: the command is not in the log; another node must be asked. The
	// error is a *NotLeaderError.
	ErrNotLeader = errors.New("registry: this node does not lead")
	// ErrUnavailable: the command is surely not in the log, because there is no leader, no
	// quorum or no free slot, or the registry is closing. It may be sent again.
	ErrUnavailable = errors.New("registry: unavailable")
	// ErrNoQuorum: this node sees no leader that a majority of the voters follow. It is an
	// ErrUnavailable.
	ErrNoQuorum = fmt.Errorf("%w: there is no leader with a quorum", ErrUnavailable)
	// ErrUnknownOutcome: the command may have been applied, may be applied later, or never.
	// Send it again only with the same request id, which is in the *UnknownOutcomeError.
	ErrUnknownOutcome = errors.New("registry: the outcome is unknown")
	// ErrUnsupported: the command needs a higher feature level than the mesh has.
	ErrUnsupported = errors.New("registry: the mesh does not support the command")
	// ErrMalformed: a field of the command is out of bounds. Nothing was changed.
	ErrMalformed = errors.New("registry: the command is malformed")
	// ErrRequestReused: the request id belongs to another command. Nothing was changed.
	ErrRequestReused = errors.New("registry: the request id was used for another command")
	// ErrForbidden: other nodes may not send this command. Nothing was changed.
	ErrForbidden = errors.New("registry: another node may not ask for this")
	// ErrLastVoter: the only voter cannot be removed. Nothing was changed.
	ErrLastVoter = errors.New("registry: the last voter cannot be removed")
	// ErrFault: a bug in the registry. Nothing was changed; the node's log has the details.
	ErrFault = errors.New("registry: a fault of the state machine")
)

// The errors of Open and Recover, for errors.Is.
var (
	// ErrLocked: another process has the directory open.
	ErrLocked = errors.New("registry: the directory is in use")
	// ErrDamaged: the content of the directory is damaged or incomplete. It was not changed,
	// and nothing is served from it.
	ErrDamaged = errors.New("registry: the directory is damaged")
	// ErrWrongNode: the directory belongs to another node id.
	ErrWrongNode = errors.New("registry: the directory belongs to another node")
	// ErrWrongCluster: the state is that of another mesh. Commands return it too, if this
	// became known only through the state that a leader sent.
	ErrWrongCluster = errors.New("registry: the state belongs to another mesh")
)

// NotLeaderError names the node to ask instead, which may be out of date; it is empty if no
// leader is known. It occurs only if Config.Forward is not set.
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

// UnknownOutcomeError holds the request id with which to send the command again.
type UnknownOutcomeError struct {
	Request RequestID
	Cause   error
}

// Error includes the request id and the cause.
func (e *UnknownOutcomeError) Error() string {
	return fmt.Sprintf("%s (request %s): %v", ErrUnknownOutcome, e.Request, e.Cause)
}

// Is makes the error an ErrUnknownOutcome.
func (e *UnknownOutcomeError) Is(target error) bool { return target == ErrUnknownOutcome }

// Unwrap returns the cause, such as context.DeadlineExceeded.
func (e *UnknownOutcomeError) Unwrap() error { return e.Cause }

// notInLog are the failures after which a command is surely not in the log.
var notInLog = []error{raft.ErrEnqueueTimeout, raft.ErrLeadershipTransferInProgress, errUnconfirmed}

// failed returns the answer for a failure of raft. Unless a failure surely kept the command
// out of the log, the outcome is unknown.
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

// refusal returns the error of a verdict; nil for accepted.
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

// Reason words an ErrUnavailable or ErrUnknownOutcome for people. The error itself is for the
// log.
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
