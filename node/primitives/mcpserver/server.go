// Package mcpserver lets running code call the tools of MCP servers. A Server is
// one that was configured for an actor; its tools are the functions of its
// namespace. A Pool holds the servers of all actors of a node.
//
// A server is started or reached when it is first needed. Its death is noticed at
// once, and the next call brings it back.
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

// Timing of a server's life.
const (
	startTime = 30 * time.Second // to be ready with the list of its tools, in each of the ways there are
	listTime  = 30 * time.Second // to list them again
	// A server that lived for less than stableTime has failed. The first failure is
	// forgiven; after each further one without an answered call between them the next
	// start waits, twice as long each time.
	stableTime = 10 * time.Second
	firstWait  = time.Second
	longWait   = time.Minute
)

var (
	errClosed   = errors.New("it was removed, or its configuration was changed")
	errTooSlow  = errors.New("it was not ready in time")
	errObsolete = errors.New("it cannot be reached, or no longer knows this client")
)

// ownCodes are what the library gives when it cannot send or understand something.
// A server that uses one of them for itself leaves as much in the dark.
var ownCodes = []int64{jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest, -32005}

// Status says whether a server is there.
type Status string

// What a server can be.
const (
	Stopped Status = "stopped" // not needed yet, or closed
	Running Status = "running"
	Failed  Status = "failed" // it did not start, or died
)

// State tells how a server is doing.
type State struct {
	Status Status `json:"status"`
	// Error is why it failed; empty otherwise.
	Error string `json:"error,omitempty"`
	// Functions is what it offered when it was last there.
	Functions []primitives.Function `json:"functions"`
}

// Server offers the tools of one MCP server as functions. Its methods may be called
// at the same time.
type Server struct {
	cfg  Config
	log  *slog.Logger
	life context.Context
	end  context.CancelCauseFunc
	work sync.WaitGroup // what goes on between calls

	startTime time.Duration

	mu       sync.Mutex
	conn     *connection   // nil when there is none
	starting chan struct{} // closed when the start under way is over; nil without
	tools    *tools        // nil before the first start
	ways     []way         // the one that worked last comes first
	failure  error         // why there is no connection
	failures int           // in a row
	notUntil time.Time     // when the next start may be
	closed   bool
}

var _ primitives.Provider = (*Server)(nil)

// Open makes a server known. It is started by the first use.
func Open(cfg Config, log *slog.Logger) *Server {
	s := &Server{cfg: cfg, log: log.With("server", cfg.Name), ways: ways(cfg), startTime: startTime}
	s.life, s.end = context.WithCancelCause(context.Background())
	return s
}

// Name is the namespace of the server's functions.
func (s *Server) Name() string { return s.cfg.Name }

// Functions lists what may be called. It starts the server only when it has never
// listed its tools: what it offered last is still told while it is down.
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

// State tells how the server is doing, for people.
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
		st.Status, st.Error = Failed, discreet(s.failure.Error())
	}
	return st
}

// Call has a tool called, once. Arguments that are nil or null stand for none.
// When ctx ends, the server is told that nobody waits any more.
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
			// Nothing was performed, so it may be tried with a new connection.
			s.renew(ctx, conn, err)
		default:
			return primitives.Value{}, s.explain(ctx, conn, name, refused, err)
		}
	}
}

// worked notes that the server answers calls, so that it does not fail in a row.
func (s *Server) worked() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = 0
}

// object checks that arguments are what a tool takes.
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

// tool finds the server's own name of a function.
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

// renew sees to it that a connection that is of no use is not used again. Other
// calls on it may still have their answers.
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

// explain turns what went wrong with a call into what the code is told.
func (s *Server) explain(ctx context.Context, conn *connection, name string, refused bool, err error) error {
	var said *jsonrpc.Error
	if !errors.As(err, &said) || slices.Contains(ownCodes, said.Code) {
		return s.lost(conn, name, refused, err)
	}
	e := &primitives.Error{Type: primitives.ErrorFailed, Message: truncate(said.Message, maxReason)}
	switch said.Code {
	case jsonrpc.CodeMethodNotFound:
		e.Type = primitives.ErrorUnknown
	case jsonrpc.CodeInvalidParams:
		// Servers say the same when the tool itself is gone.
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

// lost tells that a call got no answer, and what that means.
func (s *Server) lost(conn *connection, name string, refused bool, err error) error {
	meaning := "it may or may not have been performed"
	if refused {
		meaning = "it was not performed"
	}
	reason := err
	select {
	case <-conn.life.Done():
		reason = context.Cause(conn.life)
	case <-time.After(dyingTime):
	}
	s.log.Warn("a call of an MCP server was lost", "function", name, "error", discreet(err.Error()), "reason", discreet(reason.Error()))
	return s.unavailable(fmt.Sprintf("was lost while %s was called (%s); %s", name, reason, meaning))
}

func (s *Server) unavailable(what string) error {
	return &primitives.Error{Type: primitives.ErrorProvider,
		Message: truncate(discreet(fmt.Sprintf("the MCP server %q %s", s.cfg.Name, what)), maxReason)}
}

// Close ends the server and everything that it started. Calls under way fail. It
// returns when nothing is left.
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
