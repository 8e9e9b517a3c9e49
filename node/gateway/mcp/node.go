package mcp

import (
	"context"
	"encoding/json"

	"github.com/locusrun/locus/surfaces"
)

// Event is one event of a call, by the names of surfaces. Offset is the byte of the
// call's output after which it stands.
type Event struct {
	Name   string
	Data   json.RawMessage
	Offset int64
}

// Node is what a door leads to, as one caller sees it. Its methods may be called at
// the same time.
type Node interface {
	// Execute runs execute_code, tells the call's events and gives its result. A
	// refused call is a result too. When ctx ends the call is stopped. When emit
	// fails the call goes on, also without anybody who follows it, and Execute gives
	// emit's error.
	Execute(ctx context.Context, arguments json.RawMessage, emit func(Event) error) (surfaces.Result, error)
	// Follow is Execute for a call of this caller that runs already, from a byte of
	// its output on. Events other than output are told from the first.
	Follow(ctx context.Context, callID string, from int64, emit func(Event) error) (surfaces.Result, error)
	// Call gives the object of a call of this caller as it stands now. One that is not
	// known is a refusal with the status 404.
	Call(ctx context.Context, callID string) (surfaces.Result, error)
	// Answer answers a question of a running call.
	Answer(ctx context.Context, callID, questionID, answer string) error
	// AnswerPrimitive tells a running call what became of a primitive: an object with
	// result or with error.
	AnswerPrimitive(ctx context.Context, callID, seq string, answer json.RawMessage) error
	// Tool runs any tool but execute_code and gives its JSON object.
	Tool(ctx context.Context, name string, arguments json.RawMessage) (json.RawMessage, error)
	// Explain makes the one object that answers everything of an error of the others.
	Explain(err error) surfaces.Result
}
