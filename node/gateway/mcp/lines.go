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

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/locusrun/locus/surfaces"
)

// lines carries messages as lines of JSON, one connection in its life. What is no
// message is answered, and the next line is read: the library's own transport ends
// with the first one, and all calls with it.
type lines struct {
	in      io.ReadCloser
	out     io.WriteCloser
	limit   int // of a line, in bytes
	log     *slog.Logger
	arrived chan arrival
	closed  chan struct{}
	close   sync.Once

	writing sync.Mutex
}

// arrival is what a line brought, or why there is none.
type arrival struct {
	msg jsonrpc.Message
	err error
}

func newLines(in io.ReadCloser, out io.WriteCloser, log *slog.Logger) *lines {
	return &lines{in: in, out: out, limit: surfaces.MaxBody, log: log, arrived: make(chan arrival), closed: make(chan struct{})}
}

// Connect implements sdk.Transport.
func (l *lines) Connect(context.Context) (sdk.Connection, error) {
	go l.receive() // until the input ends, or a line arrives after Close
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

// receive reads lines and hands on what they bring.
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

// line reads one line. Of one that is too long nothing is kept.
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
		var bad *malformed
		switch {
		case a.err == nil:
			return a.msg, nil
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

// Write implements sdk.Connection. A request that its client has cancelled gets no
// answer, as the protocol wants it.
func (l *lines) Write(ctx context.Context, msg jsonrpc.Message) error {
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

func (l *lines) write(line []byte) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	_, err := l.out.Write(append(line, '\n'))
	return err
}
