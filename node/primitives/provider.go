// Package primitives lets running code call the host's capabilities. A Provider
// offers functions; a Ledger belongs to one call, decides what the call may use,
// performs each use once and remembers its outcome, also over a retry.
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
	// Schema is the JSON Schema of the arguments' object; nil when it is not known.
	Schema json.RawMessage `json:"schema,omitempty"`
	// ReadOnly says that the provider vouches that the function changes nothing.
	// Only such functions can be called from read-only code.
	ReadOnly bool `json:"read_only"`
	// Destructive says that the function may destroy what cannot be brought back.
	Destructive bool `json:"destructive,omitempty"`
	// Signature is that of a Python function, such as "(path, days=7)"; empty where
	// there is only a schema.
	Signature string `json:"signature,omitempty"`
}

// Provider offers functions. Its methods may be called at the same time.
type Provider interface {
	// Functions lists what there is. It may have to start or reach a server.
	Functions(ctx context.Context) ([]Function, error)
	// Call performs a function with an object of arguments. When ctx ends the call is
	// cancelled as far as the provider can do that. A failure that the code is to see
	// is an *Error; any other error is told to the code without its text and logged.
	Call(ctx context.Context, name string, arguments json.RawMessage) (Value, error)
}

// Finder is a Provider that finds one function without listing all.
type Finder interface {
	Provider
	Find(ctx context.Context, name string) (f Function, ok bool, err error)
}

// leftKey is that of the time which is left to a call.
type leftKey struct{}

// Left gives what the deadline of the call left it when its code asked for the use
// that a Provider performs under ctx.
func Left(ctx context.Context) time.Duration {
	left, _ := ctx.Value(leftKey{}).(time.Duration)
	return left
}

// Value is what a function gave.
type Value struct {
	// Result is JSON; nil stands for null.
	Result json.RawMessage
	// Display lists images and other media, which are shown as the call's own.
	Display []surfaces.Display
}

// Error is a failure that the code which called sees as an exception.
type Error struct {
	// Type is one of the constants below, or a name of the provider's own.
	Type    string `json:"type"`
	Message string `json:"message"`
}

// Error gives the message.
func (e *Error) Error() string { return e.Message }

// The types of errors that are not a provider's own.
const (
	ErrorUnknown   = "unknown"   // there is no such function
	ErrorForbidden = "forbidden" // not on the allow-list
	ErrorReadOnly  = "read_only" // not marked read-only, and the code is
	ErrorLimit     = "primitives_limit"
	ErrorEnded     = "ended"       // the call is over
	ErrorFailed    = "failed"      // the function said that it failed
	ErrorInvalid   = "invalid"     // the arguments do not fit
	ErrorProvider  = "unavailable" // the provider cannot be reached, or died
	ErrorForgotten = "forgotten"   // it was performed before, and what it gave is no longer held
)
