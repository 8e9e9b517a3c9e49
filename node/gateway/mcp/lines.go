package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/locusrun/locus/surfaces"
)

// lines is the transport for messages as lines of JSON, for one connection. It answers an
// invalid message and reads on; the library's own transport would end with it, and all
// calls too.
type lines struct {
	in      io.ReadCloser
	out     io.WriteCloser
	limit   int // bytes per line
	log     *slog.Logger
	arrived chan arrival
	closed  chan struct{}
	close   sync.Once
	// unread reports that nobody reads the answers any more.
	unread func() bool

	writing sync.Mutex

	mu         sync.Mutex
	inFlight   map[jsonrpc.ID]bool // requests whose answer has not begun to be written
	unanswered int                 // requests whose answer is not written
	answered   chan struct{}       // holds a token when unanswered has become 0
}

// lookEvery is how often unread is checked after the end of the input.
const lookEvery = 250 * time.Millisecond

// arrival is a message, or the error in its place.
type arrival struct {
	msg jsonrpc.Message
	err error
}

func newLines(in io.ReadCloser, out io.WriteCloser, cfg Config) *lines {
	l := &lines{
		in: in, out: out, limit: surfaces.MaxBody, log: cfg.log(), unread: cfg.Unread,
		arrived: make(chan arrival), closed: make(chan struct{}),
		inFlight: make(map[jsonrpc.ID]bool), answered: make(chan struct{}, 1),
	}
	if l.unread == nil {
		l.unread = func() bool { return false }
	}
	return l
}

// Connect implements sdk.Transport.
func (l *lines) Connect(context.Context) (sdk.Connection, error) {
	go l.receive() // ends at the end of the input, or with the first line after Close
	return l, nil
}

// SessionID implements sdk.Connection. Pipes have no sessions.
func (l *lines) SessionID() string { return "" }

// Close implements sdk.Connection.
func (l *lines) Close() error {
	var err error
	l.close.Do(func() {
		close(l.closed)
		err = errors.Join(l.in.Close(), l.out.Close())
	})
	return err
}

// receive reads lines and passes on their messages.
func (l *lines) receive() {
	r := bufio.NewReader(l.in)
	for {
		line, long, err := l.line(r)
		var all []arrival
		switch line = bytes.TrimSpace(line); {
		case long:
			all = []arrival{{err: invalid(nil, fmt.Sprintf("a line has at most %d bytes", l.limit))}}
		case len(line) > 0:
			all = messages(line)
		}
		if err != nil {
			all = append(all, arrival{err: err})
		}
		for _, a := range all {
			select {
			case l.arrived <- a:
			case <-l.closed:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// line reads one line. A line that is too long is discarded.
func (l *lines) line(r *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if long = long || len(line)+len(part) > l.limit; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, long, err
		}
	}
}

// Read implements sdk.Connection.
func (l *lines) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		var a arrival
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-l.closed:
			return nil, io.EOF
		case a = <-l.arrived:
		}
		if r, ok := a.msg.(*jsonrpc.Request); ok && a.err == nil && r.IsCall() {
			a.err = l.accept(r.ID)
		}
		var bad *malformed
		switch {
		case a.err == nil:
			return a.msg, nil
		case errors.Is(a.err, io.EOF):
			return nil, l.finish(ctx)
		case !errors.As(a.err, &bad):
			return nil, a.err
		}
		l.log.Warn("a line of the client is no message", "error", bad)
		if bad.answer {
			continue
		}
		if err := l.write(bad.reply()); err != nil {
			return nil, err
		}
	}
}

// finish returns io.EOF after all earlier requests have been answered: a client may close
// its output and go on reading. It does not wait if nobody reads any more.
func (l *lines) finish(ctx context.Context) error {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for l.outstanding() > 0 && !l.unread() {
		select {
		case <-l.answered:
		case <-look.C:
		case <-l.closed:
			return io.EOF
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return io.EOF
}

// Write implements sdk.Connection. As the protocol requires, a cancelled request gets no
// answer.
func (l *lines) Write(ctx context.Context, msg jsonrpc.Message) error {
	if r, ok := msg.(*jsonrpc.Response); ok {
		l.free(r.ID)
		defer l.settle()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if r, ok := msg.(*jsonrpc.Response); ok && (errors.Is(r.Error, errCancelled) || errors.Is(r.Error, context.Canceled)) {
		return nil
	}
	line, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	return l.write(line)
}

// accept notes a request, or returns the error for one whose id another one in flight has. The
// library would never answer that. The error has no id, as it would be taken for the answer to
// the other request.
func (l *lines) accept(id jsonrpc.ID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inFlight[id] {
		return invalid(nil, fmt.Sprintf("the id %.80v is that of a request that has no answer yet", id.Raw()))
	}
	l.inFlight[id] = true
	l.unanswered++
	return nil
}

// free allows the id of a request to be used again, before the client can have the answer.
func (l *lines) free(id jsonrpc.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.inFlight, id)
}

// settle counts a request as answered.
func (l *lines) settle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unanswered--; l.unanswered > 0 {
		return
	}
	select {
	case l.answered <- struct{}{}:
	default:
	}
}

// outstanding is the number of requests without an answer.
func (l *lines) outstanding() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unanswered
}

func (l *lines) write(line []byte) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	_, err := l.out.Write(append(line, '\n'))
	return err
}
