// Package mcpserver lets running code call the tools of MCP servers. A Server is one
// configured server of an actor; its tools are the functions of one namespace. A Pool holds
// the servers of all actors of a node.
//
// A server is started, or connected to, on first use. When its connection ends, the next
// call starts it again.
package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/locusrun/locus/node/primitives"
)

// Timeouts and back-off.
const (
	startTime = 30 * time.Second // to connect and list the tools, for each way of connecting
	listTime  = 30 * time.Second // to list the tools again
	// A connection that ends within stableTime counts as a failure. After the first failure
	// the server may be started again at once. From the second failure in a row the wait
	// doubles from firstWait to longWait. An answered call ends the row.
	stableTime = 10 * time.Second
	firstWait  = time.Second
	longWait   = time.Minute
)

var (
	errClosed   = errors.New("it was removed, or its configuration was changed")
	errTooSlow  = errors.New("it was not ready in time")
	errObsolete = errors.New("it cannot be reached, or no longer knows this client")
)

// ambiguousCodes are the error codes that the library itself uses when it cannot send or decode a
// message. An error with one of them does not say whether the tool ran.
var ambiguousCodes = []int64{jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest, -32005}

// Status says whether a server is running.
type Status string

// The statuses of a server.
const (
	Stopped Status = "stopped" // not needed yet, or closed
	Running Status = "running"
	Failed  Status = "failed" // it did not start, or died
)

// State is the state of a server, for display.
type State struct {
	Status Status `json:"status"`
	// Error is why it failed; empty unless Status is Failed.
	Error string `json:"error,omitempty"`
	// Functions is what the server offered when it last ran.
	Functions []primitives.Function `json:"functions"`
}

// Server offers the tools of one MCP server as functions. Its methods are safe for
// concurrent use.
type Server struct {
	cfg  Config
	log  *slog.Logger
	life context.Context
	end  context.CancelCauseFunc
	work sync.WaitGroup // goroutines that outlive a call

	startTime time.Duration

	mu       sync.Mutex
	conn     *connection   // nil if there is none
	starting chan struct{} // closed when the current start ends; nil if there is none
	tools    *tools        // nil before the first start
	ways     []way         // the last one that worked comes first
	failure  error         // why there is no connection
	failures int           // in a row
	notUntil time.Time     // earliest time of the next start
	closed   bool
}

var _ primitives.Provider = (*Server)(nil)

// Open makes a Server. It is started on first use.
func Open(cfg Config, log *slog.Logger) *Server {
	s := &Server{cfg: cfg, log: log.With("server", cfg.Name), ways: ways(cfg), startTime: startTime}
	s.life, s.end = context.WithCancelCause(context.Background())
	return s
}

// Name is the namespace of the server's functions.
func (s *Server) Name() string { return s.cfg.Name }

// Functions lists the tools that may be called. It starts the server only if its tools were
// never listed; while it is down it returns the last list.
func (s *Server) Functions(ctx context.Context) ([]primitives.Function, error) {
	if t := s.known(); t != nil {
		return slices.Clone(t.functions), nil
	}
	if _, err := s.connection(ctx); err != nil {
		return nil, err
	}
	return slices.Clone(s.known().functions), nil
}

func (s *Server) known() *tools {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tools
}

// State returns the state of the server.
func (s *Server) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := State{Status: Stopped, Functions: []primitives.Function{}}
	if s.tools != nil {
		st.Functions = append(st.Functions, s.tools.functions...)
	}
	switch {
	case s.closed:
	case s.conn != nil:
		st.Status = Running
	case s.failure != nil:
		st.Status, st.Error = Failed, redactURLs(s.failure.Error())
	}
	return st
}

// Call calls a tool once. nil and null arguments stand for an empty object. When ctx ends
// the server is told that the call is cancelled.
func (s *Server) Call(ctx context.Context, name string, arguments json.RawMessage) (primitives.Value, error) {
	arguments, err := object(arguments)
	if err != nil {
		return primitives.Value{}, err
	}
	for again := false; ; again = true {
		conn, err := s.connection(ctx)
		if err != nil {
			return primitives.Value{}, err
		}
		tool, err := s.tool(name)
		if err != nil {
			return primitives.Value{}, err
		}
		res, refused, err := conn.call(ctx, tool, arguments)
		switch {
		case err == nil:
			s.worked()
			return valueOf(res)
		case ctx.Err() != nil:
			return primitives.Value{}, fmt.Errorf("calling %s: %w", name, context.Cause(ctx))
		case refused && !again:
			// Nothing was performed, so one retry on a new connection is safe.
			s.renew(ctx, conn, err)
		default:
			return primitives.Value{}, s.explain(ctx, conn, name, refused, err)
		}
	}
}

// worked ends a row of failures.
func (s *Server) worked() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = 0
}

// object checks that the arguments are a JSON object.
func object(arguments json.RawMessage) (json.RawMessage, error) {
	text := strings.TrimSpace(string(arguments))
	if text == "" || text == "null" {
		return json.RawMessage("{}"), nil
	}
	if text[0] != '{' || !json.Valid(arguments) {
		return nil, &primitives.Error{Type: primitives.ErrorInvalid, Message: "the arguments must be a JSON object"}
	}
	return arguments, nil
}

// tool returns the server's own name of a function.
func (s *Server) tool(name string) (string, error) {
	t := s.known()
	function, ours := strings.CutPrefix(name, s.cfg.Name+".")
	switch {
	case ours && t.server[function] != "":
		return t.server[function], nil
	case ours && t.forbidden[function]:
		return "", &primitives.Error{Type: primitives.ErrorForbidden,
			Message: fmt.Sprintf("%s is not on the list of what may be called of the MCP server %q", name, s.cfg.Name)}
	}
	return "", &primitives.Error{Type: primitives.ErrorUnknown,
		Message: fmt.Sprintf("the MCP server %q has no function %s", s.cfg.Name, name)}
}

// renew makes sure that a useless connection is not used again. Other calls in flight on it
// may still get their answers.
func (s *Server) renew(ctx context.Context, conn *connection, err error) {
	if errors.Is(err, errEnded) {
		select {
		case <-conn.done:
			s.drop(conn)
		case <-ctx.Done():
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == conn && !s.closed {
		s.conn = nil
		s.work.Go(conn.retire)
	}
}

// explain converts the error of a call to the one that the code gets.
func (s *Server) explain(ctx context.Context, conn *connection, name string, refused bool, err error) error {
	var said *jsonrpc.Error
	if !errors.As(err, &said) || slices.Contains(ambiguousCodes, said.Code) {
		return s.lost(conn, name, refused, err)
	}
	e := &primitives.Error{Type: primitives.ErrorFailed, Message: truncate(said.Message, maxReason)}
	switch said.Code {
	case jsonrpc.CodeMethodNotFound:
		e.Type = primitives.ErrorUnknown
	case jsonrpc.CodeInvalidParams:
		// Servers use this code for unknown tools too, so the list is refreshed to tell the
		// two apart.
		e.Type = primitives.ErrorInvalid
		s.refresh(ctx, conn)
		if _, err := s.tool(name); err != nil {
			return err
		}
	case mcp.CodeURLElicitationRequired:
		e.Message = "the tool wants a person to open a page first, which is not supported here: " + e.Message
	}
	return e
}

// lost is the error of a call that got no answer; it says whether the call may have been
// performed.
func (s *Server) lost(conn *connection, name string, refused bool, err error) error {
	meaning := "it may or may not have been performed"
	if refused {
		meaning = "it was not performed"
	}
	reason := err
	select {
	case <-conn.life.Done():
		reason = context.Cause(conn.life)
	case <-time.After(exitGrace):
	}
	s.log.Warn("a call of an MCP server was lost", "function", name, "error", redactURLs(err.Error()), "reason", redactURLs(reason.Error()))
	return s.unavailable(fmt.Sprintf("was lost while %s was called (%s); %s", name, reason, meaning))
}

func (s *Server) unavailable(what string) error {
	return &primitives.Error{Type: primitives.ErrorProvider,
		Message: truncate(redactURLs(fmt.Sprintf("the MCP server %q %s", s.cfg.Name, what)), maxReason)}
}

// Close ends the server and everything that it started, and waits for that. Calls in flight
// fail. It always returns nil.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	conn := s.conn
	s.mu.Unlock()
	s.end(errClosed)
	if conn != nil {
		conn.close(errClosed)
	}
	s.work.Wait()
	return nil
}
