package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/locusrun/locus/node/gateway/mcp"
	"github.com/locusrun/locus/surfaces"
)

// mcpCaller is the mcp.Node of one request. Its call may outlive the request for a moment.
type mcpCaller struct {
	x   *exchange
	out *mcpAnswer

	mu     sync.Mutex
	callID string // of the call that the request has started; empty before
}

// call returns the id of the request's call, if any, for the log.
func (c *mcpCaller) call() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.callID
}

// Execute implements mcp.Node.
func (c *mcpCaller) Execute(ctx context.Context, arguments json.RawMessage, emit func(mcp.Event) error) (surfaces.Result, error) {
	g := c.x.g
	e := g.svc.Start(ctx, c.x.caller, arguments)
	defer g.metrics.callWhenDone(e, g.log)
	if ended(e) || wantsBackground(arguments) {
		c.attend(e)
		return e.Result(), nil
	}
	return c.follow(ctx, e, 0, emit)
}

// Follow implements mcp.Node.
func (c *mcpCaller) Follow(ctx context.Context, callID string, from int64, emit func(mcp.Event) error) (surfaces.Result, error) {
	e, err := c.find(ctx, callID)
	if err != nil {
		return surfaces.Result{}, err
	}
	return c.follow(ctx, e, from, emit)
}

func (c *mcpCaller) attend(e Execution) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.callID = e.ID()
}

func (c *mcpCaller) follow(ctx context.Context, e Execution, from int64, emit func(mcp.Event) error) (surfaces.Result, error) {
	c.attend(e)
	c.out.beat()
	present := &c.x.g.present
	present.enter(e.ID())
	var failed error
	err := safely(func() error {
		return e.Follow(ctx, from, func(ev StreamEvent) error {
			if ev.Name != "result" {
				failed = emit(mcp.Event{Name: ev.Name, Data: ev.Data, Offset: ev.Offset})
			}
			return failed
		})
	})
	last := present.leave(e.ID())
	switch {
	case ended(e):
		return e.Result(), nil
	case failed != nil:
		return surfaces.Result{}, failed
	case ctx.Err() != nil:
		if last {
			e.Abandon(0)
		}
		return surfaces.Result{}, context.Cause(ctx)
	case err == nil:
		err = errors.New("its events ended without a result")
	}
	return surfaces.Result{}, fmt.Errorf("follow call %s: %w", e.ID(), err)
}

func (c *mcpCaller) find(ctx context.Context, callID string) (Execution, error) {
	e, err := c.x.g.svc.Execution(ctx, c.x.caller, callID)
	if e == nil && err == nil {
		err = surfaces.UnknownExecution(clip(callID, 100))
	}
	return e, err
}

// Call implements mcp.Node.
func (c *mcpCaller) Call(ctx context.Context, callID string) (surfaces.Result, error) {
	e, err := c.find(ctx, callID)
	if err != nil {
		return surfaces.Result{}, err
	}
	c.attend(e)
	return e.Result(), nil
}

// Answer implements mcp.Node.
func (c *mcpCaller) Answer(ctx context.Context, callID, questionID, answer string) error {
	e, err := c.find(ctx, callID)
	if err != nil {
		return err
	}
	body, err := encode(map[string]string{"id": questionID, "answer": answer})
	if err != nil {
		return err
	}
	_, err = e.Steer(ctx, "answer", body)
	return err
}

// AnswerPrimitive implements mcp.Node.
func (c *mcpCaller) AnswerPrimitive(ctx context.Context, callID, seq string, answer json.RawMessage) error {
	e, err := c.find(ctx, callID)
	if err != nil {
		return err
	}
	return e.AnswerPrimitive(ctx, seq, answer)
}

// Tool implements mcp.Node.
func (c *mcpCaller) Tool(ctx context.Context, name string, arguments json.RawMessage) (json.RawMessage, error) {
	run, ok := toolsByName[name]
	if !ok {
		return nil, surfaces.UnknownTool(clip(name, maxSegment))
	}
	answer, err := run(c.x.g.svc, ctx, c.x.caller, arguments)
	if err != nil {
		return nil, err
	}
	text, err := encode(answer)
	return bytes.TrimRight(text, "\n"), err
}

// Explain implements mcp.Node.
func (c *mcpCaller) Explain(err error) surfaces.Result {
	var refusal *surfaces.Refusal
	if !errors.As(err, &refusal) {
		c.x.g.log.Error("a tool failed", "request_id", c.x.id, "call_id", c.call(), "error", err)
		refusal = surfaces.Internal(c.x.id)
	}
	return refusal.Result(surfaces.Partial{CallID: c.call()})
}

// toolsByName are the tools that answer with one object.
var toolsByName = map[string]func(Service, context.Context, Caller, []byte) (any, error){
	surfaces.ToolList:    plain(listSessions),
	surfaces.ToolInspect: plain(Service.InspectState),
	surfaces.ToolClose:   plain(Service.CloseSession),
	surfaces.ToolReset:   plain(Service.ResetSession),
	surfaces.ToolFork:    plain(Service.ForkSession),
}

func plain[T any](call func(Service, context.Context, Caller, []byte) (T, error)) func(Service, context.Context, Caller, []byte) (any, error) {
	return func(s Service, ctx context.Context, who Caller, body []byte) (any, error) {
		return call(s, ctx, who, body)
	}
}
