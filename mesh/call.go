package mesh

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/quic-go/quic-go"
)

// Stream begins a call of a peer's method. It waits for a connection and for stream
// credit, but not for the peer, which learns of the call with the first Send, Receive or
// CloseSend. The end of ctx cancels the stream. Every error is an *UnreachableError with
// Sent false.
func (m *Mesh) Stream(ctx context.Context, peer, method string) (*Stream, error) {
	return m.stream(ctx, linkKey{peer: peer}, peer, method)
}

// StreamAt is like Stream, for whichever node listens at addr ("host:port"). Stream.Peer
// tells which one that is.
func (m *Mesh) StreamAt(ctx context.Context, addr, method string) (*Stream, error) {
	return m.stream(ctx, linkKey{addr: addr}, addr, method)
}

func (m *Mesh) stream(ctx context.Context, key linkKey, peer, method string) (*Stream, error) {
	if !isName(method) {
		return nil, &UnreachableError{Peer: peer, Cause: fmt.Errorf("%w: %q", ErrUnknownMethod, method)}
	}
	key.class = Data
	if known, ok := m.cfg.Methods[method]; ok {
		key.class = known.Class
	}
	c, qs, err := m.open(ctx, key, "")
	if err != nil {
		return nil, &UnreachableError{Peer: peer, Cause: err}
	}
	s := &Stream{qs: qs, on: c, ctx: ctx, role: caller}
	s.header = header{kind: kindCall, name: method}.append(nil)
	c.add(s)
	s.watch()
	return s, nil
}

// open opens a stream on the link's connection. If the connection breaks before that,
// open retries once on a new one, which is safe because nothing was sent.
func (m *Mesh) open(ctx context.Context, key linkKey, hint string) (*conn, *quic.Stream, error) {
	l := m.link(key)
	for again := true; ; again = false {
		c, err := l.use(ctx, hint)
		if err != nil {
			return nil, nil, err
		}
		qs, err := c.qc.OpenStreamSync(ctx)
		if err == nil {
			return c, qs, nil
		}
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		if !again {
			cause, _ := causeOf(err)
			return nil, nil, cause
		}
		l.forget(c)
	}
}

// Call sends one message and returns the one message of the answer. The error is an
// *Error from the handler, an *UnreachableError, or ErrTooLarge.
func (m *Mesh) Call(ctx context.Context, peer, method string, request []byte) ([]byte, error) {
	s, err := m.Stream(ctx, peer, method)
	if err != nil {
		return nil, err
	}
	defer s.Cancel()
	if err := s.Send(request); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := s.CloseSend(); err != nil {
		return nil, err
	}
	reply, err := s.Receive()
	if err != nil {
		return nil, s.oneReply(err)
	}
	// Either the end of the stream follows, or an error of the handler.
	switch _, err := s.Receive(); {
	case errors.Is(err, io.EOF):
		return reply, nil
	case err != nil:
		return nil, err
	}
	s.abort(codeProtocol)
	return nil, s.failed(fmt.Errorf("%w: %s answers with more than one message", ErrProtocol, method))
}

func (s *Stream) oneReply(err error) error {
	if errors.Is(err, io.EOF) {
		return s.failed(fmt.Errorf("%w: no answer", ErrProtocol))
	}
	return err
}
