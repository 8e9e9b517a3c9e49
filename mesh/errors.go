package mesh

import (
	"errors"
	"fmt"

	"github.com/quic-go/quic-go"
)

// Why a peer could not be reached, a call was refused, or a stream ended. They are
// the causes of an *UnreachableError; test with errors.Is.
var (
	// ErrClosed: this mesh is closed.
	ErrClosed = errors.New("mesh: closed")
	// ErrUnknownPeer: nobody knows an address of the peer.
	ErrUnknownPeer = errors.New("mesh: no address of the peer is known")
	// ErrDraining: the peer takes no new calls.
	ErrDraining = errors.New("mesh: the peer is draining")
	// ErrForbidden: the role of this process may not call the method.
	ErrForbidden = errors.New("mesh: this role may not call the method")
	// ErrUnknownMethod: the peer does not serve the method.
	ErrUnknownMethod = errors.New("mesh: the peer does not serve the method")
	// ErrBusy: the peer has no room for one more stream of this kind.
	ErrBusy = errors.New("mesh: the peer is busy")
	// ErrVersion: the peer speaks no version of the protocol that this process does.
	ErrVersion = errors.New("mesh: no common version of the protocol")
	// ErrRejected: one side did not accept the other's certificate.
	ErrRejected = errors.New("mesh: certificate not accepted")
	// ErrRevoked: the identity of the peer is revoked.
	ErrRevoked = errors.New("mesh: the peer is revoked")
	// ErrCancelled: one side cancelled the stream.
	ErrCancelled = errors.New("mesh: cancelled")
	// ErrStalled: the stream was cut since its reader left data lying while too many
	// other streams of the connection did so too.
	ErrStalled = errors.New("mesh: the stream was not read")
	// ErrProtocol: the other side sent something that is not the protocol.
	ErrProtocol = errors.New("mesh: protocol violated")
	// ErrTooLarge: the message is larger than MaxFrame, or than the bound of a long one.
	// Nothing was sent, or no more is read.
	ErrTooLarge = errors.New("mesh: the message is too large")
	// ErrSlept: this machine slept, so that no connection can be relied on.
	ErrSlept = errors.New("mesh: this machine was asleep")
)

// Error is the answer of a peer's handler that failed. Codes belong to the method;
// CodeInternal is the one that mesh itself gives.
type Error struct {
	Code    string
	Message string
	Data    []byte
}

// CodeInternal is the code of a handler's error that is not an *Error, and of a panic.
const CodeInternal = "internal"

// Error gives code and message.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// UnreachableError says that a call did not come to an orderly end.
type UnreachableError struct {
	// Peer is the id of the other side.
	Peer string
	// Sent is false if surely nothing of the call reached the peer's handler, so that
	// it can be sent again or elsewhere.
	Sent bool
	// Cause is one of this package's sentinels, the cause of the caller's context, or
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

// Unwrap gives the cause.
func (e *UnreachableError) Unwrap() error { return e.Cause }

// Codes on the wire, for streams and connections alike. Append only.
const (
	codeDone      = 0 // the orderly end
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
	codeSlept:     ErrSlept,
}

// alertNoProtocol is the TLS alert for no_application_protocol.
const alertNoProtocol = 120

// refused tells of a code that a peer gives only before any handler has run, of a stream
// or, on a connection, of any of its streams.
func refused(code uint64) bool {
	return code == codeDraining || code == codeForbidden || code == codeUnknown || code == codeBusy
}

// causeOf names what a quic error means. With certain set, surely no handler of the
// peer has seen the stream.
func causeOf(err error) (cause error, certain bool) {
	var (
		stream    *quic.StreamError
		app       *quic.ApplicationError
		transport *quic.TransportError
	)
	switch {
	case errors.As(err, &stream):
		if known, ok := causes[uint64(stream.ErrorCode)]; ok {
			return known, stream.Remote && refused(uint64(stream.ErrorCode))
		}
		return fmt.Errorf("%w: stream code %d", ErrProtocol, stream.ErrorCode), false
	case errors.As(err, &app):
		if !app.Remote && app.ErrorCode == codeDone {
			return ErrClosed, false
		}
		if known, ok := causes[uint64(app.ErrorCode)]; ok && app.ErrorCode != codeDone {
			return known, app.Remote && refused(uint64(app.ErrorCode))
		}
		return err, false
	case errors.As(err, &transport) && transport.ErrorCode.IsCryptoError():
		// Both of our TLS endpoints raise an alert only during the handshake, and a
		// server runs no handler before its end.
		if transport.ErrorCode-0x100 == alertNoProtocol {
			return ErrVersion, true
		}
		return fmt.Errorf("%w: %w", ErrRejected, err), true
	}
	return err, false
}
