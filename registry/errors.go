package registry

import (
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
	// ErrUnknownOutcome: the command may be applied, now or later, or never. Send it
	// again only with the same request id, which the *UnknownOutcomeError tells.
	ErrUnknownOutcome = errors.New("registry: the outcome is unknown")
	// ErrUnsupported: the mesh's feature level does not know the command.
	ErrUnsupported = errors.New("registry: the mesh does not support the command")
	// ErrMalformed: a field of the command is out of bounds. Nothing was changed.
	ErrMalformed = errors.New("registry: the command is malformed")
	// ErrRequestReused: the request id belongs to another command. Nothing was changed.
	ErrRequestReused = errors.New("registry: the request id was used for another command")
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
)

// NotLeaderError says whom to ask instead. Both fields are empty when there is no
// leader now, and may be out of date.
type NotLeaderError struct {
	Leader NodeID
	Addr   string
}

// Error names the leader, if one is known.
func (e *NotLeaderError) Error() string {
	if e.Leader == "" {
		return ErrNotLeader.Error() + "; no leader is known"
	}
	return fmt.Sprintf("%s; %s at %s does", ErrNotLeader, e.Leader, e.Addr)
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
var notInLog = []error{raft.ErrEnqueueTimeout, raft.ErrLeadershipTransferInProgress}

// classify turns a failure of the log into one of the classes above. What is not
// known to be harmless is unknown.
func (r *Registry) classify(err error, request RequestID) error {
	if errors.Is(err, raft.ErrNotLeader) {
		addr, id := r.raft.LeaderWithID()
		return &NotLeaderError{Leader: NodeID(id), Addr: string(addr)}
	}
	for _, harmless := range notInLog {
		if errors.Is(err, harmless) {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	return &UnknownOutcomeError{Request: request, Cause: err}
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
