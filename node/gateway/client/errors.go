package client

import (
	"errors"
	"fmt"
	"net"
	"net/url"

	"github.com/locusrun/locus/surfaces"
)

// Unreachable says that nothing answers at the server's address. Nothing was
// started.
type Unreachable struct {
	Server string
	Err    error
}

// Error gives the sentence for people. That nobody listens needs no more words.
func (e *Unreachable) Error() string {
	text := "no node answers at " + e.Server
	var op *net.OpError
	var request *url.Error
	if errors.As(e.Err, &request) && !errors.As(e.Err, &op) {
		text += ": " + request.Err.Error()
	}
	return text
}

// Unwrap gives what the network said.
func (e *Unreachable) Unwrap() error { return e.Err }

// Unsendable says that what was asked cannot be written as a request. Nothing was sent.
type Unsendable struct{ Err error }

// Error gives the sentence for people.
func (e *Unsendable) Error() string { return "the request cannot be written: " + e.Err.Error() }

// Unwrap gives what is wrong with it.
func (e *Unsendable) Unwrap() error { return e.Err }

// Unanswered says that a request was sent and no whole answer came: the
// connection broke, or the node took longer than the client waits. Whether what
// was asked has happened is not known.
type Unanswered struct {
	Server string
	// Err is what the network said; nil when the client's patience ended.
	Err error
}

// Error gives the sentence for people.
func (e *Unanswered) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("the node at %s has not answered in time; whether it did what was asked is not known", e.Server)
	}
	return fmt.Sprintf("the connection to %s broke before the answer; whether it did what was asked is not known", e.Server)
}

// Unwrap gives what the network said.
func (e *Unanswered) Unwrap() error { return e.Err }

// Refused says that the node did not do what was asked, or that it could not.
// errors.As finds a *surfaces.Refusal in it too.
type Refused struct {
	// HTTPStatus is the status of the answer, such as 404; 200 when a tool failed in
	// a way that is no fault of the request, such as lost state.
	HTTPStatus int
	// Result is the object that the node answered with.
	Result surfaces.Result
}

// Error gives the node's own sentence.
func (e *Refused) Error() string {
	if e.Result.Error != nil {
		return *e.Result.Error
	}
	return fmt.Sprintf("the node refused with HTTP status %d", e.HTTPStatus)
}

// Unwrap gives the refusal in the form that the node itself uses.
func (e *Refused) Unwrap() error {
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

// Broken says that a call was lost from sight: it may have run, be running, or
// have ended.
type Broken struct {
	// CallID is empty when the connection broke before the node named the call.
	CallID string
	// Offset is the last output byte seen, for coming back later.
	Offset int64
	Err    error
}

// Error gives the sentence for people.
func (e *Broken) Error() string {
	if e.CallID == "" {
		return "the connection broke before the node named the call; whether it ran is not known"
	}
	return fmt.Sprintf("the connection to call %s broke and did not come back; its outcome is not known here", e.CallID)
}

// Unwrap gives the last failure seen.
func (e *Broken) Unwrap() error { return e.Err }

// Misanswered says that the answer is not one that a node gives.
type Misanswered struct {
	Server     string
	HTTPStatus int
	Reason     string
}

// Error gives the sentence for people.
func (e *Misanswered) Error() string {
	return fmt.Sprintf("what answers at %s does not speak like a node (HTTP status %d): %s", e.Server, e.HTTPStatus, e.Reason)
}
