package mcp

import (
	"context"
	"encoding/json"

	"github.com/locusrun/locus/surfaces"
)

// Event is one event of a call, with a name of package surfaces. Offset is its position in
// the call's output.
type Event struct {
	Name   string
	Data   json.RawMessage
	Offset int64
}

// Node is a node as one caller sees it. Its methods must be safe for concurrent use.
type Node interface {
	// Execute runs execute_code, emits the call's events and returns its result. A refused
	// call is a result too. When ctx ends the call is stopped. When emit fails the call
	// goes on, even if nobody follows it, and Execute returns that error.
	Execute(ctx context.Context, arguments json.RawMessage, emit func(Event) error) (surfaces.Result, error)
	// Follow is Execute for an existing call of this caller, from an output offset on.
	// Events other than output are emitted from the first.
	Follow(ctx context.Context, callID string, from int64, emit func(Event) error) (surfaces.Result, error)
	// Call returns the present Result of a call of this caller. For an unknown call the
	// error is a refusal with HTTP status 404.
	Call(ctx context.Context, callID string) (surfaces.Result, error)
	// Answer answers a question of a running call.
	Answer(ctx context.Context, callID, questionID, answer string) error
	// AnswerPrimitive answers a primitive of a running call: an object with result or
	// error.
	AnswerPrimitive(ctx context.Context, callID, seq string, answer json.RawMessage) error
	// Tool runs any tool but execute_code and returns its JSON object.
	Tool(ctx context.Context, name string, arguments json.RawMessage) (json.RawMessage, error)
	// Explain converts an error of the other methods to a Result.
	Explain(err error) surfaces.Result
}
