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

// Stream is one call, seen from either side: messages both ways until the handler
// has returned. Send and Receive may be used at the same time, each by any number of
// goroutines, though the order is then theirs to care for.
//
// A caller must read to the end (any error of Receive) or Cancel; it is usual to defer
// Cancel, which does nothing after the end. Messages that are not read hold the
// sender up; many streams left unread on one connection are cut with ErrStalled.
type Stream struct {
	qs   *quic.Stream
	on   *conn
	ctx  context.Context // ends the stream; the caller's, or the handler's
	role side
	sent atomic.Bool                 // bytes of the stream may have left this process
	stop atomic.Pointer[func() bool] // ends the watch of ctx

	sending sync.Mutex // held for a write
	header  []byte     // not yet sent
	buffer  []byte     // of the last write
	misses  int        // messages in a row that could not be compressed
	skip    int        // messages that are not tried

	receiving sync.Mutex // held for a read
	end       error      // what Receive gives from now on, once it is set
	reads     int        // messages read
	unread    bool       // found unread at the last look of the watch
	readsThen int        // reads at that look

	closed atomic.Bool // no more Send
	over   atomic.Bool // both directions have ended
}

type side bool

const (
	caller  side = false
	handler side = true
)

// Peer is the identity of the other side.
func (s *Stream) Peer() certs.Identity { return s.on.peer }

// Context ends, with a cause, when the stream does or its caller's context.
func (s *Stream) Context() context.Context { return s.ctx }

// Send sends one message of at most MaxFrame bytes. It waits while the peer does not
// read. io.EOF says that the handler has already returned: Receive tells its answer.
// All other failures are an *UnreachableError or ErrTooLarge.
func (s *Stream) Send(message []byte) error {
	if len(message) > MaxFrame {
		return fmt.Errorf("%w: %d bytes", ErrTooLarge, len(message))
	}
	return s.write(func(b []byte) []byte { return s.frame(b, message) })
}

// frame appends the message's frame. After messages that could not be compressed it
// tries only one of many, for trying costs as much as sending. Called with sending held.
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

// flush makes the call known to the peer if no message has done it yet.
func (s *Stream) flush() error {
	s.sending.Lock()
	pending := s.header != nil
	s.sending.Unlock()
	if !pending {
		return nil
	}
	return s.write(func(b []byte) []byte { return b })
}

// Receive gives the next message, which belongs to the caller then. At the orderly
// end it gives io.EOF: for a handler that no more messages come, for a caller that the
// handler has returned without an error. A caller gets the handler's error as an
// *Error. All else is an *UnreachableError.
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

// CloseSend tells the handler that no more messages come. A handler need not call it,
// and it does nothing for one: returning is the end.
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
		// An error here says that the stream was cancelled; Receive tells why.
		_ = s.qs.Close()
	}
	return nil
}

// watch lets the end of the caller's context cancel the stream.
func (s *Stream) watch() {
	stop := context.AfterFunc(s.ctx, s.Cancel)
	s.stop.Store(&stop)
}

// Cancel ends both directions at once, unless the stream has already ended. The other
// side sees its context end, or ErrCancelled.
func (s *Stream) Cancel() { s.abort(codeCancelled) }

func (s *Stream) abort(code uint64) {
	if s.over.Swap(true) {
		return
	}
	s.qs.CancelRead(quic.StreamErrorCode(code))
	s.qs.CancelWrite(quic.StreamErrorCode(code))
	s.ended()
}

// finish ends what is still open after the handler's answer.
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

// answer ends the handler's side with what the handler has returned.
func (s *Stream) answer(err error) {
	if err != nil {
		var told *Error
		if !errors.As(err, &told) {
			told = &Error{Code: CodeInternal, Message: err.Error()}
		}
		// If it fails, there is no caller any more to tell.
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

// failed makes an *UnreachableError of what ended the stream.
func (s *Stream) failed(err error) error {
	cause, certain := causeOf(err)
	var local *quic.StreamError
	if errors.As(err, &local) && !local.Remote || errors.Is(err, quic.ErrStreamClosed) {
		// Cancelled on this side: by the end of the context, if that has ended.
		cause = ErrCancelled
		if local != nil && local.ErrorCode == codeStalled {
			cause = ErrStalled
		}
		if s.ctx.Err() != nil {
			cause = context.Cause(s.ctx)
		}
	}
	return &UnreachableError{Peer: s.on.peer.ID, Sent: s.sent.Load() && !certain, Cause: cause}
}

const lookFor = 100 * time.Microsecond

// unreadSinceLastLook tells whether more than a little data lies unread, now and at the
// last look, and nothing was read between.
func (s *Stream) unreadSinceLastLook() bool {
	if !s.receiving.TryLock() {
		s.unread = false // somebody reads: only looks touch it
		return false
	}
	defer s.receiving.Unlock()
	before := s.unread && s.reads == s.readsThen
	s.unread, s.readsThen = false, s.reads
	if s.end == nil && !s.over.Load() {
		var b [littleUnread]byte
		// Peek looks only before its deadline, so it must be a little ahead.
		_ = s.qs.SetReadDeadline(time.Now().Add(lookFor))
		n, _ := s.qs.Peek(b[:])
		_ = s.qs.SetReadDeadline(time.Time{})
		s.unread = n == len(b)
	}
	return before && s.unread
}
