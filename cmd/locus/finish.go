package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/locusrun/locus/cmd/locus/present"
	"github.com/locusrun/locus/node/gateway/client"
	"github.com/locusrun/locus/surfaces"
)

// exitError ends the command with the status of a result that was already printed.
type exitError struct{ result surfaces.Result }

func (e *exitError) Error() string { return "the call did not go well" }

// statusError ends the command with a status; everything was already printed.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// errLeft says that the user left a call that was still running.
var errLeft = errors.New("detached while the call was still running")

// interruptedError says that Ctrl-C ended the command before it had an answer.
type interruptedError string

func (e interruptedError) Error() string { return "interrupted " + string(e) }

// finish prints an error, as JSON with --json, unless it was printed already. It returns
// the exit status.
func (a *app) finish(err error) int {
	a.showUnlessShown(err)
	return a.status(err)
}

// status returns the exit status for an error.
func (a *app) status(err error) int {
	var shown *exitError
	var status statusError
	var unwritten *unwrittenError
	switch {
	case err == nil:
		return surfaces.ExitOK
	case errors.As(err, &unwritten):
		return surfaces.ExitLost
	case errors.As(err, &shown):
		return surfaces.ExitStatus(shown.result)
	case errors.As(err, &status):
		return int(status)
	}
	return surfaces.ExitStatus(a.errorResult(err))
}

// wentWell reports that the exit status for an error is 0.
func (a *app) wentWell(err error) bool { return a.status(err) == 0 }

func (a *app) showUnlessShown(err error) {
	var shown *exitError
	var status statusError
	if err == nil || errors.As(err, &shown) || errors.As(err, &status) {
		return
	}
	var unwritten *unwrittenError
	if errors.As(err, &unwritten) {
		unwritten.tell(a.err)
		return
	}
	result := a.errorResult(err)
	if !a.json {
		var refused *client.RefusedError
		if !errors.As(err, &refused) {
			// The codes of a node are only for its own errors.
			result.Code = nil
		}
		fmt.Fprint(a.err, present.Failure(result, argumentFlag))
		return
	}
	if err := a.printJSON(result); errors.As(err, &unwritten) {
		unwritten.tell(a.err)
	}
}

// errorResult converts any error to a Result.
func (a *app) errorResult(err error) surfaces.Result {
	var usage *usageError
	var refused *client.RefusedError
	var unreachable *client.UnreachableError
	var broken *client.ConnectionLostError
	var misanswered *client.ProtocolError
	var unanswered *client.NoAnswerError
	var unsendable *client.EncodeError
	var interrupted interruptedError
	if result, ok := joinResult(err); ok {
		return result
	}
	switch {
	case errors.As(err, &usage):
		return failure(surfaces.StatusRefused, surfaces.CodeInvalidArgument, usage.Message, usage.Suggestion)
	case errors.As(err, &unsendable):
		return failure(surfaces.StatusRefused, surfaces.CodeInvalidArgument, unsendable.Error()+".", "")
	case errors.As(err, &broken):
		suggestion := ""
		if broken.CallID != "" {
			suggestion = "ask for it later with: locus calls show --follow " + broken.CallID
		}
		result := failure(surfaces.StatusFailed, surfaces.CodeOutcomeUnknown, broken.Error()+".", suggestion)
		result.CallID = broken.CallID
		return result
	case errors.As(err, &refused):
		return a.explainAuth(refused.Result)
	case errors.As(err, &unreachable):
		advice := "start one with: locus up"
		if errors.Is(err, http.ErrSchemeMismatch) {
			advice = "give --server the address with http://; a node itself speaks no TLS"
		}
		return failure(surfaces.StatusRefused, surfaces.CodeOwnerUnreachable, unreachable.Error()+".", advice)
	case errors.As(err, &unanswered):
		return failure(surfaces.StatusFailed, surfaces.CodeOutcomeUnknown, unanswered.Error()+".", "")
	case errors.As(err, &misanswered):
		return failure(surfaces.StatusFailed, surfaces.CodeOwnerUnreachable, misanswered.Error()+".", "point --server at a node")
	case errors.As(err, &interrupted):
		return failure(surfaces.StatusFailed, surfaces.CodeOutcomeUnknown, interrupted.Error()+".", "")
	case errors.Is(err, errLeft), errors.Is(err, context.Canceled):
		return failure(surfaces.StatusFailed, surfaces.CodeOutcomeUnknown, errLeft.Error()+"; the node stops it.", "")
	default:
		return failure(surfaces.StatusFailed, surfaces.CodeInternal, err.Error()+".", "")
	}
}

// explainAuth adds where a token was searched if the node missed one.
func (a *app) explainAuth(result surfaces.Result) surfaces.Result {
	if result.Code == nil || *result.Code != surfaces.CodeUnauthenticated {
		return result
	}
	target, err := a.target()
	if err != nil {
		return result
	}
	text := "the token came from " + target.TokenFrom + "; give a good one with --token or LOCUS_TOKEN"
	if target.Missing != "" {
		text = target.Missing + "; give a token with --token or LOCUS_TOKEN, or the node's directory with --data"
	}
	result.Suggestion = &text
	return result
}

func failure(status surfaces.Status, code surfaces.Code, message, suggestion string) surfaces.Result {
	kind := code.Type()
	result := surfaces.Result{
		Status: status, Error: &message, ErrorType: &kind, Code: &code, Display: []surfaces.Display{}, Notice: []surfaces.Notice{},
	}
	if suggestion != "" {
		result.Suggestion = &suggestion
	}
	return result
}
