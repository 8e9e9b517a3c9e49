package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"sync"

	"github.com/spf13/cobra"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/gateway/client"
	"github.com/locusrun/locus/node/gateway/mcp"
	"github.com/locusrun/locus/surfaces"
)

func (a *app) mcpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "mcp", Short: "Serve the tools to an MCP client on standard input and output",
		Long: `Serve the tools of a node to one client of the Model Context Protocol (MCP), as lines of
JSON on standard input and output. The client starts this command; docs/mcp.md shows how
to configure it. Standard output carries the protocol only; errors go to standard error.

The command exits when standard input has ended and every request has been answered. When
standard output is closed, or at SIGTERM, running calls are stopped. The node may be
restarted in the meantime.`,
		Example: `  locus mcp
  locus mcp --server http://127.0.0.1:7070 --token TOKEN`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.mcp(cmd.Context()) },
	}
}

func (a *app) mcp(ctx context.Context) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	// Clients show why a server has ended, but hide the errors of its tools.
	if _, err := c.Status(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	node := &mcpNode{a: a, c: c, ctx: ctx}
	cfg := mcp.Config{
		Outputs: gateway.ToolOutputs(), Version: version(),
		Log:    slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Unread: a.unread,
	}
	err = mcp.Serve(ctx, cfg, node, io.NopCloser(a.in), unclosed{a.out})
	cancel()
	node.kept.Wait()
	return err
}

// unclosed is a writer that others use too, so Close must not close it.
type unclosed struct{ io.Writer }

// Close does nothing.
func (unclosed) Close() error { return nil }

// mcpNode is the mcp.Node on top of the HTTP client.
type mcpNode struct {
	a *app
	c *client.Client
	// ctx ends with the command. kept are the calls that it keeps alive.
	ctx  context.Context
	kept sync.WaitGroup
}

// Execute implements mcp.Node.
func (n *mcpNode) Execute(ctx context.Context, arguments json.RawMessage, emit func(mcp.Event) error) (surfaces.Result, error) {
	return n.attend(ctx, "", emit, func(take emitter) (surfaces.Result, error) {
		return n.c.StreamRaw(ctx, arguments, take)
	})
}

// Follow implements mcp.Node.
func (n *mcpNode) Follow(ctx context.Context, callID string, from int64, emit func(mcp.Event) error) (surfaces.Result, error) {
	return n.attend(ctx, callID, emit, func(take emitter) (surfaces.Result, error) {
		return n.c.Follow(ctx, callID, from, take)
	})
}

// attend follows a call. When ctx ends it stops the call. When emit fails it keeps the call
// alive, which the node would stop after its last follower has left.
func (n *mcpNode) attend(ctx context.Context, callID string, emit func(mcp.Event) error, follow func(emitter) (surfaces.Result, error)) (surfaces.Result, error) {
	var failed error
	var at int64
	result, err := follow(func(ev gateway.StreamEvent) error {
		at = ev.Offset
		if ev.Name == client.EventStarted {
			var started struct {
				CallID string `json:"call_id"`
			}
			if json.Unmarshal(ev.Data, &started) == nil {
				callID = started.CallID
			}
		}
		failed = emit(mcp.Event{Name: ev.Name, Data: ev.Data, Offset: ev.Offset})
		return failed
	})
	switch {
	case err == nil || callID == "":
	case failed != nil:
		n.keep(callID, at)
	case ctx.Err() != nil:
		n.stop(callID)
	}
	return result, err
}

// keep follows a call to its end, so that it can wait for an answer.
func (n *mcpNode) keep(callID string, from int64) {
	n.kept.Go(func() {
		_, err := n.c.Follow(n.ctx, callID, from, func(gateway.StreamEvent) error { return nil })
		var refused *client.RefusedError
		if err != nil && n.ctx.Err() == nil && !errors.As(err, &refused) {
			slog.New(slog.NewTextHandler(n.a.err, nil)).Warn("a call that waits for an answer was lost from sight", "call_id", callID, "error", err)
		}
	})
}

// stop stops a call. If the node cannot be reached, it stops the call by itself soon after
// the last follower has left.
func (n *mcpNode) stop(callID string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(n.ctx), stopWithin)
	defer cancel()
	_, _ = n.c.Stop(ctx, callID)
}

// Call implements mcp.Node.
func (n *mcpNode) Call(ctx context.Context, callID string) (surfaces.Result, error) {
	return n.c.Execution(ctx, callID)
}

// Answer implements mcp.Node.
func (n *mcpNode) Answer(ctx context.Context, callID, questionID, answer string) error {
	_, err := n.c.Answer(ctx, callID, questionID, answer)
	return err
}

// AnswerPrimitive implements mcp.Node.
func (n *mcpNode) AnswerPrimitive(ctx context.Context, callID, seq string, answer json.RawMessage) error {
	return n.c.AnswerPrimitiveRaw(ctx, callID, seq, answer)
}

// Tool implements mcp.Node.
func (n *mcpNode) Tool(ctx context.Context, name string, arguments json.RawMessage) (json.RawMessage, error) {
	return n.c.Tool(ctx, name, arguments)
}

// Explain implements mcp.Node.
func (n *mcpNode) Explain(err error) surfaces.Result { return n.a.errorResult(err) }
