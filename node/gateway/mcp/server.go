package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/locusrun/locus/surfaces"
	"github.com/locusrun/locus/surfaces/tracing"
)

// Config says what is served. The zero values of all fields but Outputs are usable.
type Config struct {
	// Outputs are the JSON Schemas of what the tools answer with, by their names.
	Outputs map[string]json.RawMessage
	// Version is told to clients.
	Version string
	// Log gets what is wrong with the protocol; nil drops it.
	Log *slog.Logger
	// Unread tells, for Serve, that nobody reads the answers any more. Nil where nobody knows.
	Unread func() bool
}

// log gives the log for what is wrong.
func (c Config) log() *slog.Logger {
	if c.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(warnings{c.Log.Handler()})
}

// handlers are the tools' handlers. caller finds out for whom a request is.
type handlers struct {
	caller func(*sdk.RequestExtra) caller
	log    *slog.Logger
}

// caller is for whom a request is, and for how long there is somebody to answer.
type caller struct {
	node Node
	ctx  context.Context
}

// newServer makes the protocol's server, for any number of clients.
func newServer(cfg Config, find func(*sdk.RequestExtra) caller) *sdk.Server {
	log := cfg.log()
	h := &handlers{caller: find, log: log}
	server := sdk.NewServer(&sdk.Implementation{Name: "locus", Title: "Locus", Version: cfg.Version}, &sdk.ServerOptions{
		Instructions: instructions,
		Logger:       log,
		// The tools and kinds of resources never change, and there are no logs for clients.
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Resources: &sdk.ResourceCapabilities{}},
	})
	schemas := surfaces.Schemas()
	for _, t := range surfaces.Tools() {
		handle := h.tool
		if t.Name == surfaces.ToolExecute {
			handle = h.execute
		}
		server.AddTool(describe(t, schemas[t.Name], cfg.Outputs[t.Name]), h.safely(handle))
	}
	h.addResources(server)
	return server
}

// serving gives the node of a request and the context under which it is answered:
// it ends with the request and with whoever sent it, and has the trace of who sent it.
func (h *handlers) serving(ctx context.Context, extra *sdk.RequestExtra) (context.Context, Node, context.CancelFunc) {
	who := h.caller(extra)
	ctx, cancel := context.WithCancelCause(tracing.Under(ctx, who.ctx))
	release := context.AfterFunc(who.ctx, func() { cancel(context.Cause(who.ctx)) })
	return ctx, who.node, func() { release(); cancel(nil) }
}

// safely makes a panic of a tool a fault that its client is told of: the library
// runs tools on goroutines of its own, where a panic ends the process.
func (h *handlers) safely(handle sdk.ToolHandler) sdk.ToolHandler {
	return func(ctx context.Context, req *sdk.CallToolRequest) (res *sdk.CallToolResult, err error) {
		defer func() {
			if p := recover(); p != nil {
				fault := fmt.Errorf("panic: %v\n%s", p, debug.Stack())
				res, err = resultOf(h.caller(req.Extra).node.Explain(fault), ""), nil
			}
		}()
		return handle(ctx, req)
	}
}

// tool runs a tool that answers with one object.
func (h *handlers) tool(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	ctx, node, end := h.serving(ctx, req.Extra)
	defer end()
	answer, err := node.Tool(ctx, req.Params.Name, arguments(req))
	if err != nil {
		if ctx.Err() != nil {
			return nil, errCancelled
		}
		return resultOf(node.Explain(err), ""), nil
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(answer)}}, StructuredContent: answer}, nil
}

// errCancelled answers a request that its client has cancelled or left. JSON-RPC has
// no code for it; this is the one that others use. At the end of pipes nobody is told.
var errCancelled = &jsonrpc.Error{Code: -32800, Message: "the request was cancelled"}

// arguments gives a tool's arguments as they came. None are an empty object.
func arguments(req *sdk.CallToolRequest) json.RawMessage {
	if len(req.Params.Arguments) == 0 || string(req.Params.Arguments) == "null" {
		return json.RawMessage("{}")
	}
	return req.Params.Arguments
}

// warnings passes on what is at least a warning: the protocol's library tells the
// coming and going of each client.
type warnings struct{ slog.Handler }

// Enabled implements slog.Handler.
func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }
