// Package primitives lets running code call the host's capabilities. A Provider offers
// functions. A Ledger belongs to one call: it decides what the call may use, has each use
// performed at most once and keeps the outcome, also across a retry of the call.
package primitives

import (
	"context"
	"encoding/json"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// Function describes one capability. Name is NAMESPACE.FUNCTION, each part a
// Python identifier.
type Function struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Schema is the JSON Schema of the arguments object; nil if unknown.
	Schema json.RawMessage `json:"schema,omitempty"`
	// ReadOnly is the provider's assurance that the function changes nothing. Read-only
	// code can call only such functions.
	ReadOnly bool `json:"read_only"`
	// Destructive says that the function may destroy data that cannot be restored.
	Destructive bool `json:"destructive,omitempty"`
	// Signature is that of a Python function, such as "(path, days=7)"; empty if there is
	// only a schema.
	Signature string `json:"signature,omitempty"`
}

// Provider offers functions. Its methods must be safe for concurrent use.
type Provider interface {
	// Functions lists what the provider has. It may have to start or reach a server.
	Functions(ctx context.Context) ([]Function, error)
	// Call performs a function with an object of arguments. When ctx ends the provider
	// cancels it as far as it can. An *Error is passed to the code as it is; any other
	// error is logged, and the code gets one without its text.
	Call(ctx context.Context, name string, arguments json.RawMessage) (Value, error)
}

// Finder is a Provider that can look up one function without listing all.
type Finder interface {
	Provider
	// Find returns the function of that name; ok is false if there is none.
	Find(ctx context.Context, name string) (f Function, ok bool, err error)
}

// remainingKey is the context key for Remaining.
type remainingKey struct{}

// Remaining returns how much of the call's time was left when its code asked for the use that a
// Provider performs under ctx.
func Remaining(ctx context.Context) time.Duration {
	left, _ := ctx.Value(remainingKey{}).(time.Duration)
	return left
}

// Value is the result of a function.
type Value struct {
	// Result is JSON; nil stands for null.
	Result json.RawMessage
	// Display lists images and other media to show as output of the call.
	Display []surfaces.Display
}

// Error is a failure that the calling code sees as an exception.
type Error struct {
	// Type is one of the constants below, or a name chosen by the provider.
	Type    string `json:"type"`
	Message string `json:"message"`
}

// Error gives the message.
func (e *Error) Error() string { return e.Message }

// Error types that are not a provider's own.
const (
	ErrorUnknown   = "unknown"   // there is no such function
	ErrorForbidden = "forbidden" // not on the allow-list
	ErrorReadOnly  = "read_only" // not marked read-only, and the code is
	ErrorLimit     = "primitives_limit"
	ErrorEnded     = "ended"       // the call is over
	ErrorFailed    = "failed"      // the function said that it failed
	ErrorInvalid   = "invalid"     // the arguments do not fit
	ErrorProvider  = "unavailable" // the provider cannot be reached, or died
	ErrorForgotten = "forgotten"   // performed before, and the outcome is no longer held
)
