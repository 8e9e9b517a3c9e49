package mesh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/locusrun/locus/certs"
)

// Stream is one call, seen from either side: messages in both directions until the handler
// returns. Send and Receive may be called concurrently, each by any number of goroutines,
// which then have to take care of the order.
//
// A caller must read until Receive returns an error, or call Cancel. It is usual to defer
// Cancel, which does nothing after the end. Unread messages block the sender
// (back-pressure). If too many streams of a connection stay unread, they are cancelled
// with ErrStalled.
type Stream struct {
	qs   *quic.Stream
	on   *conn
	ctx  context.Context // of the caller, or of the handler; its end ends the stream
	role side
	sent atomic.Bool                 // bytes of the stream may have left this process
	stop atomic.Pointer[func() bool] // stops watching ctx

	sending sync.Mutex // held for a write
	header  []byte     // the stream's header while it is not sent yet
	buffer  []byte     // the write buffer, reused
	misses  int        // consecutive messages that did not compress
	skip    int        // messages to send without trying compression

	receiving    sync.Mutex // held for a read
	end          error      // the final error of Receive, once there is one
	reads        int        // messages read
	unread       bool       // data was unread at the last check
	readsAtCheck int        // reads at that check

	closed atomic.Bool // the sending direction has ended
	over   atomic.Bool // both directions have ended
}

type side bool

const (
	caller  side = false
	handler side = true
)

// Peer returns the identity of the other side.
func (s *Stream) Peer() certs.Identity { return s.on.peer }

// Context returns the context of the stream. It ends, with a cause, with the caller's
// context or, for a handler, with the stream.
func (s *Stream) Context() context.Context { return s.ctx }

// Send sends one message of at most MaxFrame bytes. It blocks while the peer does not
// read. The error io.EOF means that the handler has already returned; Receive returns its
// answer. Any other error is an *UnreachableError or ErrTooLarge.
func (s *Stream) Send(message []byte) error {
	if len(message) > MaxFrame {
		return fmt.Errorf("%w: %d bytes", ErrTooLarge, len(message))
	}
	return s.write(func(b []byte) []byte { return s.frame(b, message) })
}

// frame appends the message's frame. Trying to compress costs about as much as sending, so
// after messages that did not compress it tries only one of up to 64. Called with sending
// held.
func (s *Stream) frame(b, message []byte) []byte {
	switch {
	case len(message) < compressFrom:
		return (*codec)(nil).appendMessage(b, message)
	case s.skip > 0:
		s.skip--
		return (*codec)(nil).appendMessage(b, message)
	}
	start := len(b)
	b = s.on.codec.appendMessage(b, message)
	if b[start] == frameCompressed {
		s.misses = 0
	} else {
		s.misses = min(s.misses+1, 6)
		s.skip = 1<<s.misses - 1
	}
	return b
}

// keepBuffer is the largest write buffer that a stream keeps for its next message.
const keepBuffer = 128 << 10

func (s *Stream) write(frame func([]byte) []byte) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	if s.closed.Load() {
		return s.failed(quic.ErrStreamClosed)
	}
	b := frame(append(s.buffer[:0], s.header...))
	s.header = nil
	if cap(b) <= keepBuffer {
		s.buffer = b
	}
	s.sent.Store(true)
	if _, err := s.qs.Write(b); err != nil {
		var told *quic.StreamError
		if errors.As(err, &told) && told.Remote && told.ErrorCode == codeDone {
			return io.EOF
		}
		return s.failed(err)
	}
	return nil
}

// flush sends the header if no message has sent it yet.
func (s *Stream) flush() error {
	s.sending.Lock()
	pending := s.header != nil
	s.sending.Unlock()
	if !pending {
		return nil
	}
	return s.write(func(b []byte) []byte { return b })
}

// Receive returns the next message, which the receiver may keep and change. The error
// io.EOF is the normal end: a handler gets it after the caller's CloseSend, a caller when
// the handler has returned without an error. A caller gets the handler's error as an
// *Error. Any other error is an *UnreachableError.
func (s *Stream) Receive() ([]byte, error) {
	if s.role == caller {
		if err := s.flush(); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
	}
	s.receiving.Lock()
	defer s.receiving.Unlock()
	if s.end != nil {
		return nil, s.end
	}
	message, err := s.on.codec.readFrame(s.qs)
	if err == nil {
		s.reads++
		return message, nil
	}
	var told *Error
	switch {
	case errors.Is(err, io.EOF):
		s.end = io.EOF
	case errors.As(err, &told) && s.role == caller:
		s.end = told
	case told != nil:
		s.end = s.failed(fmt.Errorf("%w: error frame from a caller", ErrProtocol))
	default:
		s.end = s.failed(err)
	}
	if errors.Is(s.end, ErrProtocol) {
		s.abort(codeProtocol)
	} else if s.role == caller {
		s.finish()
	}
	return nil, s.end
}

// CloseSend tells the handler that no more messages follow. On the handler's side it does
// nothing: a handler ends the stream by returning.
func (s *Stream) CloseSend() error {
	if s.role == handler {
		return nil
	}
	if err := s.flush(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	s.sending.Lock()
	defer s.sending.Unlock()
	if !s.closed.Swap(true) {
		// An error means that the stream was cancelled. Receive returns the reason.
		_ = s.qs.Close()
	}
	return nil
}

// watch cancels the stream when the caller's context ends.
func (s *Stream) watch() {
	stop := context.AfterFunc(s.ctx, s.Cancel)
	s.stop.Store(&stop)
}

// Cancel ends both directions at once, unless the stream has already ended. On the other
// side the handler's context ends, or the caller gets ErrCancelled.
func (s *Stream) Cancel() { s.abort(codeCancelled) }

func (s *Stream) abort(code uint64) {
	if s.over.Swap(true) {
		return
	}
	s.qs.CancelRead(quic.StreamErrorCode(code))
	s.qs.CancelWrite(quic.StreamErrorCode(code))
	s.ended()
}

// finish closes what is still open after the handler's answer.
func (s *Stream) finish() {
	if s.over.Swap(true) {
		return
	}
	s.qs.CancelRead(codeDone)
	if !s.closed.Swap(true) {
		s.qs.CancelWrite(codeDone)
	}
	s.ended()
}

func (s *Stream) ended() {
	if stop := s.stop.Load(); stop != nil {
		(*stop)()
	}
	s.on.remove(s)
}

// answer ends the handler's side with the error that the handler has returned, or nil.
func (s *Stream) answer(err error) {
	if err != nil {
		var told *Error
		if !errors.As(err, &told) {
			told = &Error{Code: CodeInternal, Message: err.Error()}
		}
		// If it fails, the caller is gone.
		_ = s.write(func(b []byte) []byte { return appendError(b, told) })
	}
	if s.over.Swap(true) {
		return
	}
	s.sending.Lock()
	s.closed.Store(true)
	cancelled := s.qs.Close() != nil
	s.sending.Unlock()
	if cancelled {
		s.qs.CancelWrite(codeCancelled)
	}
	s.qs.CancelRead(codeDone)
	s.ended()
}

// failed returns the *UnreachableError for what ended the stream.
func (s *Stream) failed(err error) error {
	cause, unsent := causeOf(err)
	var local *quic.StreamError
	if errors.As(err, &local) && !local.Remote || errors.Is(err, quic.ErrStreamClosed) {
		// It was cancelled on this side, perhaps because the context has ended.
		cause = ErrCancelled
		if local != nil && local.ErrorCode == codeStalled {
			cause = ErrStalled
		}
		if s.ctx.Err() != nil {
			cause = context.Cause(s.ctx)
		}
	}
	return &UnreachableError{Peer: s.on.peer.ID, Sent: s.sent.Load() && !unsent, Cause: cause}
}

const peekTimeout = 100 * time.Microsecond

// stalledSinceLastCheck reports whether at least ignoredUnread bytes are unread, were
// already so at the last check, and nothing was read in between.
func (s *Stream) stalledSinceLastCheck() bool {
	if !s.receiving.TryLock() {
		s.unread = false // somebody reads; only these checks use the field
		return false
	}
	defer s.receiving.Unlock()
	before := s.unread && s.reads == s.readsAtCheck
	s.unread, s.readsAtCheck = false, s.reads
	if s.end == nil && !s.over.Load() {
		var b [ignoredUnread]byte
		// Peek returns nothing at all after its deadline, so that is set a little ahead.
		_ = s.qs.SetReadDeadline(time.Now().Add(peekTimeout))
		n, _ := s.qs.Peek(b[:])
		_ = s.qs.SetReadDeadline(time.Time{})
		s.unread = n == len(b)
	}
	return before && s.unread
}
