package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// lastHandshake is the newest protocol version with the initialize handshake. Later
// versions start with another request, which makes some old servers fail.
const lastHandshake = "2025-11-25"

// exitGrace is how long an error waits for the process to exit after its output ended, so
// that the error can give the exit status.
const exitGrace = time.Second

// errEnded is the error of a call on a connection that had already ended: nothing was sent.
var errEnded = errors.New("the connection has ended")

// connection is one connection to a server: an MCP session, and the process or the HTTP
// client that carries it.
type connection struct {
	log     *slog.Logger
	opened  time.Time
	session *mcp.ClientSession
	process *process        // nil for a server with a URL
	base    *http.Transport // nil for one with a command
	changed chan struct{}   // holds one token when the list of tools has changed

	life context.Context // its cause says why the connection ended
	end  context.CancelCauseFunc

	mu     sync.Mutex // guards ending: no call begins once it is set
	ending bool
	calls  sync.WaitGroup
	done   chan struct{} // closed when everything of the connection has ended
}

// way is one way to start a session.
type way struct {
	version   string // empty: the newest
	transport func(*connection) (mcp.Transport, error)
}

// ways lists the ways to reach a server in the order in which to try them.
func ways(cfg Config) []way {
	if cfg.URL == "" {
		start := func(c *connection) (mcp.Transport, error) { return c.start(cfg) }
		return []way{{"", start}, {lastHandshake, start}}
	}
	return []way{
		{"", func(c *connection) (mcp.Transport, error) {
			client, err := c.dial(cfg)
			return &mcp.StreamableClientTransport{Endpoint: cfg.URL, HTTPClient: client, MaxEventSize: maxMessage}, err
		}},
		{lastHandshake, func(c *connection) (mcp.Transport, error) {
			client, err := c.dial(cfg)
			return &mcp.SSEClientTransport{Endpoint: cfg.URL, HTTPClient: client, MaxEventSize: maxMessage}, err
		}},
	}
}

func (c *connection) start(cfg Config) (mcp.Transport, error) {
	p, err := startProcess(cfg, c.log)
	if err != nil {
		return nil, err
	}
	c.process = p
	stray := func(line []byte) {
		c.log.Debug("an MCP server prints what is no message", "text", string(line[:min(len(line), maxLogLine)]))
	}
	return &mcp.IOTransport{
		Reader:        io.NopCloser(newMessageReader(p, stray)),
		Writer:        p,
		MaxLineLength: -1, // the reader has the bound
	}, nil
}

func (c *connection) dial(cfg Config) (*http.Client, error) {
	w, err := newHeaderTransport(cfg)
	if err != nil {
		return nil, err
	}
	c.base = w.base
	return &http.Client{Transport: w}, nil
}

// kept records the connection that a transport made, so that it can be closed if the
// session fails.
type kept struct {
	mcp.Transport
	conn mcp.Connection
}

func (k *kept) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := k.Transport.Connect(ctx)
	k.conn = conn
	return conn, err
}

// connect starts a session in one way. ctx bounds the attempt, life the connection.
func connect(ctx, life context.Context, w way, log *slog.Logger) (*connection, error) {
	c := &connection{log: log, opened: time.Now(), changed: make(chan struct{}, 1), done: make(chan struct{})}
	c.life, c.end = context.WithCancelCause(life)
	transport, err := w.transport(c)
	if err != nil {
		c.end(err)
		return nil, err
	}
	// The SSE transport uses the context of Connect for as long as it lives, so ctx is only
	// linked to it during the attempt.
	stop := context.AfterFunc(ctx, func() { c.end(context.Cause(ctx)) })
	k := &kept{Transport: transport}
	c.session, err = c.client().Connect(c.life, k, &mcp.ClientSessionOptions{ProtocolVersion: w.version})
	if !stop() && err == nil {
		err = errors.Join(context.Cause(ctx), c.session.Close())
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, c.abandon(k.conn, err)
	}
	go c.watch()
	return c, nil
}

// abandon cleans up after a failed attempt and returns the best reason for the failure.
func (c *connection) abandon(conn mcp.Connection, err error) error {
	c.end(err)
	if conn != nil {
		_ = conn.Close()
	}
	if c.process != nil {
		select {
		case <-c.process.ended:
			err = c.process.exitError()
		case <-time.After(exitGrace):
		}
		c.process.stop()
		c.report(err)
	}
	if c.base != nil {
		c.base.CloseIdleConnections()
	}
	return err
}

// client declares no capabilities to the server: no sampling, elicitation or roots. The
// library refuses such requests.
func (c *connection) client() *mcp.Client {
	return mcp.NewClient(&mcp.Implementation{Name: "locus", Version: "1"}, &mcp.ClientOptions{
		Logger:         c.log,
		Capabilities:   &mcp.ClientCapabilities{},
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			select {
			case c.changed <- struct{}{}:
			default: // a refresh is pending already
			}
		},
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) {
			c.log.Debug("an MCP server logs", "level", r.Params.Level, "data", r.Params.Data)
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			c.log.Debug("an MCP server is under way", "progress", r.Params.Progress, "total", r.Params.Total, "text", r.Params.Message)
		},
	})
}

// watch waits for the end of the session and then cleans up what carried it.
func (c *connection) watch() {
	defer close(c.done)
	err := c.session.Wait()
	c.mu.Lock()
	c.ending = true
	c.mu.Unlock()
	// Calls that were answered before the end must return their answers.
	c.calls.Wait()
	// Some of the library's goroutines end only on Close.
	_ = c.session.Close()
	if c.process != nil {
		c.process.stop()
		if err == nil {
			err = c.process.exitError()
		}
		if c.life.Err() == nil {
			c.report(err)
		}
	}
	if c.base != nil {
		c.base.CloseIdleConnections()
	}
	if err == nil {
		err = errors.New("it closed the connection")
	}
	c.end(err)
}

// report logs the last stderr output of a process that ended.
func (c *connection) report(err error) {
	if words := c.process.stderrTail(); len(words) > 0 {
		c.log.Warn("an MCP server ended", "error", err, "stderr", words)
	}
}

// retire closes the connection once the calls in flight are over.
func (c *connection) retire() {
	c.mu.Lock()
	c.ending = true
	c.mu.Unlock()
	c.calls.Wait()
	c.close(errObsolete)
}

// close ends the connection and the calls in flight, for the given reason.
func (c *connection) close(why error) {
	c.mu.Lock()
	c.ending = true
	c.mu.Unlock()
	c.end(why)
	if c.process != nil {
		_ = c.process.Close() // unblocks a call that is writing
	}
	_ = c.session.Close()
	<-c.done
}

// call calls a tool. refused says that the call certainly had no effect.
func (c *connection) call(ctx context.Context, tool string, arguments json.RawMessage) (_ *mcp.CallToolResult, refused bool, _ error) {
	if !c.begin() {
		return nil, true, errEnded
	}
	ctx, delivery := withDelivery(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(c.life, func() { cancel(context.Cause(c.life)) })
	defer stop()
	type answer struct {
		result  *mcp.CallToolResult
		refused bool
		err     error
	}
	// Sending can block on a server that does not read, even when ctx has ended.
	answers := make(chan answer, 1)
	go func() {
		defer c.calls.Done()
		res, err := c.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
		answers <- answer{res, c.process == nil && delivery.undelivered(), err}
	}()
	var a answer
	select {
	case a = <-answers:
	case <-ctx.Done():
		select {
		case a = <-answers:
		default:
			a.err = context.Cause(ctx)
		}
	}
	return a.result, a.refused, a.err
}

// begin counts a call; false if the connection is ending.
func (c *connection) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending {
		return false
	}
	c.calls.Add(1)
	return true
}
