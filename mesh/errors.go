package mesh

import (
	"errors"
	"fmt"

	"github.com/quic-go/quic-go"
)

// Causes of an *UnreachableError: why a peer could not be reached, a call was refused, or
// a stream ended. Test for them with errors.Is.
var (
	// ErrClosed: this mesh is closed.
	ErrClosed = errors.New("mesh: closed")
	// ErrUnknownPeer: no address of the peer is known.
	ErrUnknownPeer = errors.New("mesh: no address of the peer is known")
	// ErrDraining: the peer takes no new calls.
	ErrDraining = errors.New("mesh: the peer is draining")
	// ErrForbidden: the role of this process may not call the method.
	ErrForbidden = errors.New("mesh: this role may not call the method")
	// ErrUnknownMethod: the peer does not serve the method.
	ErrUnknownMethod = errors.New("mesh: the peer does not serve the method")
	// ErrBusy: the peer has reached a limit on connections or streams.
	ErrBusy = errors.New("mesh: the peer is busy")
	// ErrVersion: the peer and this process have no protocol version in common.
	ErrVersion = errors.New("mesh: no common version of the protocol")
	// ErrRejected: one side did not accept the other's certificate.
	ErrRejected = errors.New("mesh: certificate not accepted")
	// ErrRevoked: the identity of the peer is revoked.
	ErrRevoked = errors.New("mesh: the peer is revoked")
	// ErrCancelled: one side cancelled the stream.
	ErrCancelled = errors.New("mesh: cancelled")
	// ErrStalled: the stream was cancelled because its reader left data unread, as too many
	// other streams of the connection did.
	ErrStalled = errors.New("mesh: the stream was not read")
	// ErrProtocol: the other side violated the protocol.
	ErrProtocol = errors.New("mesh: protocol violated")
	// ErrTooLarge: the message is larger than MaxFrame, or than the limit of a long
	// message. A sender has sent nothing of it; a receiver reads no more of it.
	ErrTooLarge = errors.New("mesh: the message is too large")
	// ErrSuspended: this machine was suspended, so its connections were closed.
	ErrSuspended = errors.New("mesh: this machine was asleep")
)

// Error is an error that a peer's handler has returned. Each method defines its codes;
// the mesh itself uses only CodeInternal.
type Error struct {
	Code    string
	Message string
	// Data is what a method adds for its callers; nil for most.
	Data []byte
}

// CodeInternal is the code of a handler's error that is not an *Error, and of a panic.
const CodeInternal = "internal"

// Error returns code and message.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// UnreachableError says that a call ended without an answer of the peer's handler.
type UnreachableError struct {
	// Peer is the id of the other side.
	Peer string
	// Sent is false only if nothing of the call has reached the peer's handler, so that it
	// can safely be sent again or elsewhere. In doubt it is true.
	Sent bool
	// Cause is one of this package's error values, the cause of the caller's context, or
	// an error of the connection.
	Cause error
}

// Error names the peer and the cause.
func (e *UnreachableError) Error() string {
	if e.Sent {
		return fmt.Sprintf("mesh: lost %s during the call: %v", e.Peer, e.Cause)
	}
	return fmt.Sprintf("mesh: cannot reach %s: %v", e.Peer, e.Cause)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Cause }

// Error codes on the wire, for streams and connections alike. Append only.
const (
	codeDone      = 0 // normal end
	codeCancelled = 1
	codeDraining  = 2
	codeForbidden = 3
	codeUnknown   = 4
	codeBusy      = 5
	codeProtocol  = 6
	codeStalled   = 7
	codeRevoked   = 8
	codeSlept     = 9
)

var causes = map[uint64]error{
	codeDone:      ErrCancelled,
	codeCancelled: ErrCancelled,
	codeDraining:  ErrDraining,
	codeForbidden: ErrForbidden,
	codeUnknown:   ErrUnknownMethod,
	codeBusy:      ErrBusy,
	codeProtocol:  ErrProtocol,
	codeStalled:   ErrStalled,
	codeRevoked:   ErrRevoked,
	codeSlept:     ErrSuspended,
}

// alertNoProtocol is the TLS alert for no_application_protocol.
const alertNoProtocol = 120

// isRefusal reports whether code means that no handler has run: for a stream, or for any
// stream of a connection that was closed with it.
func isRefusal(code uint64) bool {
	return code == codeDraining || code == codeForbidden || code == codeUnknown || code == codeBusy
}

// causeOf maps a QUIC error to a cause. unsent is true if certainly no handler of the peer
// has seen the stream.
func causeOf(err error) (cause error, unsent bool) {
	var (
		stream    *quic.StreamError
		app       *quic.ApplicationError
		transport *quic.TransportError
	)
	switch {
	case errors.As(err, &stream):
		if known, ok := causes[uint64(stream.ErrorCode)]; ok {
			return known, stream.Remote && isRefusal(uint64(stream.ErrorCode))
		}
		return fmt.Errorf("%w: stream code %d", ErrProtocol, stream.ErrorCode), false
	case errors.As(err, &app):
		if !app.Remote && app.ErrorCode == codeDone {
			return ErrClosed, false
		}
		if known, ok := causes[uint64(app.ErrorCode)]; ok && app.ErrorCode != codeDone {
			return known, app.Remote && isRefusal(uint64(app.ErrorCode))
		}
		return err, false
	case errors.As(err, &transport) && transport.ErrorCode.IsCryptoError():
		// Both TLS endpoints raise alerts only during the handshake, and the server runs no
		// handler before it is complete.
		if transport.ErrorCode-0x100 == alertNoProtocol {
			return ErrVersion, true
		}
		return fmt.Errorf("%w: %w", ErrRejected, err), true
	}
	return err, false
}
