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

// Config says what to serve. Only Outputs is required.
type Config struct {
	// Outputs are the JSON Schemas of the tools' answers by tool.
	Outputs map[string]json.RawMessage
	// Version is reported to clients.
	Version string
	// Log gets protocol errors; nil discards them.
	Log *slog.Logger
	// Unread reports, for Serve, that nobody reads the answers any more; nil if that cannot
	// be known.
	Unread func() bool
}

// log returns the logger for the protocol.
func (c Config) log() *slog.Logger {
	if c.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(warnings{c.Log.Handler()})
}

// handlers are the tools' handlers. caller returns the caller of a request.
type handlers struct {
	caller func(*sdk.RequestExtra) caller
	log    *slog.Logger
}

// caller is who made a request; ctx ends when its answer is no longer needed.
type caller struct {
	node Node
	ctx  context.Context
}

// newServer makes the server for any number of clients.
func newServer(cfg Config, find func(*sdk.RequestExtra) caller) *sdk.Server {
	log := cfg.log()
	h := &handlers{caller: find, log: log}
	server := sdk.NewServer(&sdk.Implementation{Name: "locus", Title: "Locus", Version: cfg.Version}, &sdk.ServerOptions{
		Instructions: instructions,
		Logger:       log,
		// The lists of tools and resources never change, and clients get no logs.
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

// serving returns the node of a request and the context to serve it under, which ends with
// the request and with the caller's context, and has the caller's trace.
func (h *handlers) serving(ctx context.Context, extra *sdk.RequestExtra) (context.Context, Node, context.CancelFunc) {
	who := h.caller(extra)
	ctx, cancel := context.WithCancelCause(tracing.WithSpanOf(ctx, who.ctx))
	release := context.AfterFunc(who.ctx, func() { cancel(context.Cause(who.ctx)) })
	return ctx, who.node, func() { release(); cancel(nil) }
}

// safely converts a panic of a tool to an internal error. The library runs tools on
// goroutines of its own, where a panic would end the process.
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

// errCancelled answers a request that was cancelled by its client or whose client has gone.
// JSON-RPC defines no code for this; others use this one. Over pipes no answer is sent.
var errCancelled = &jsonrpc.Error{Code: -32800, Message: "the request was cancelled"}

// arguments returns a tool's arguments as they were sent; none are an empty object.
func arguments(req *sdk.CallToolRequest) json.RawMessage {
	if len(req.Params.Arguments) == 0 || string(req.Params.Arguments) == "null" {
		return json.RawMessage("{}")
	}
	return req.Params.Arguments
}

// warnings drops records below warning, because the library logs every connect and
// disconnect.
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
