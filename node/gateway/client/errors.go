package client

import (
	"errors"
	"fmt"
	"net"
	"net/url"

	"github.com/locusrun/locus/surfaces"
)

// UnreachableError says that nothing answers at the server's address. Nothing was started.
type UnreachableError struct {
	Server string
	Err    error
}

// Error returns a message for users. A refused connection needs no details.
func (e *UnreachableError) Error() string {
	text := "no node answers at " + e.Server
	var op *net.OpError
	var request *url.Error
	if errors.As(e.Err, &request) && !errors.As(e.Err, &op) {
		text += ": " + request.Err.Error()
	}
	return text
}

// Unwrap returns the network error.
func (e *UnreachableError) Unwrap() error { return e.Err }

// EncodeError says that the request could not be encoded. Nothing was sent.
type EncodeError struct{ Err error }

// Error returns a message for users.
func (e *EncodeError) Error() string { return "the request cannot be written: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *EncodeError) Unwrap() error { return e.Err }

// NoAnswerError says that a request was sent, but no complete answer came: the connection
// broke or the client's time-out passed. It is not known whether the node did what was
// asked.
type NoAnswerError struct {
	Server string
	// Err is the network error; nil after a time-out.
	Err error
}

// Error returns a message for users.
func (e *NoAnswerError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("the node at %s has not answered in time; whether it did what was asked is not known", e.Server)
	}
	return fmt.Sprintf("the connection to %s broke before the answer; whether it did what was asked is not known", e.Server)
}

// Unwrap returns the network error.
func (e *NoAnswerError) Unwrap() error { return e.Err }

// RefusedError says that the node did not do what was asked. errors.As also finds a
// *surfaces.Refusal in it.
type RefusedError struct {
	// HTTPStatus is the status of the answer, such as 404. It is 200 when a tool failed for
	// a reason that is not in the request, such as lost state.
	HTTPStatus int
	// Result is the node's answer.
	Result surfaces.Result
}

// Error returns the node's own message.
func (e *RefusedError) Error() string {
	if e.Result.Error != nil {
		return *e.Result.Error
	}
	return fmt.Sprintf("the node refused with HTTP status %d", e.HTTPStatus)
}

// Unwrap returns the answer as a *surfaces.Refusal.
func (e *RefusedError) Unwrap() error {
	r := &surfaces.Refusal{Message: e.Error(), Fix: e.Result.Fix, HTTP: e.HTTPStatus}
	if e.Result.Code != nil {
		r.Code = *e.Result.Code
	}
	if e.Result.Suggestion != nil {
		r.Suggestion = *e.Result.Suggestion
	}
	if e.Result.RetryAfterS != nil {
		r.RetryAfterS = *e.Result.RetryAfterS
	}
	return r
}

// ConnectionLostError says that the connection to a call was lost for good. The call may not
// have run, may still run, or may have ended.
type ConnectionLostError struct {
	// CallID is empty if the node had not named the call yet.
	CallID string
	// Offset is the last output offset received, to follow the call later.
	Offset int64
	Err    error
}

// Error returns a message for users.
func (e *ConnectionLostError) Error() string {
	if e.CallID == "" {
		return "the connection broke before the node named the call; whether it ran is not known"
	}
	return fmt.Sprintf("the connection to call %s broke and did not come back; its outcome is not known here", e.CallID)
}

// Unwrap returns the last error.
func (e *ConnectionLostError) Unwrap() error { return e.Err }

// ProtocolError says that the answer is not from a node.
type ProtocolError struct {
	Server     string
	HTTPStatus int
	Reason     string
}

// Error returns a message for users.
func (e *ProtocolError) Error() string {
	return fmt.Sprintf("what answers at %s does not speak like a node (HTTP status %d): %s", e.Server, e.HTTPStatus, e.Reason)
}
