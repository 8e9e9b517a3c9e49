package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/locusrun/locus/node/gateway/mcp"
	"github.com/locusrun/locus/surfaces"
)

// mcpPath is where the Model Context Protocol is spoken.
const mcpPath = "/mcp"

func mcpRoutes() []route {
	return []route{
		{method: "POST", pattern: mcpPath, pool: poolOwn, handle: (*exchange).mcp, body: typeOf[map[string]any](), kinds: []string{kindJSON, kindStream},
			refusals: []int{404, 413, 415}, doc: "The tools by the Model Context Protocol (streamable HTTP)."},
		{method: "GET", pattern: mcpPath, pool: poolCalls, handle: (*exchange).mcp, kinds: []string{kindStream}, refusals: []int{404},
			doc: "What the server says by itself in a session of the Model Context Protocol."},
		{method: "DELETE", pattern: mcpPath, pool: poolControls, handle: (*exchange).mcp, kinds: []string{kindText}, refusals: []int{404},
			doc: "End a session of the Model Context Protocol."},
	}
}

// ToolOutputs gives the JSON Schemas of what the tools answer with at the door that
// speaks the Model Context Protocol: the tool's own object, or the one that says why
// there is none.
func ToolOutputs() map[string]json.RawMessage {
	outputs := make(map[string]json.RawMessage)
	for _, r := range (&Gateway{}).table() {
		if r.tool == "" {
			continue
		}
		s := schemas{}
		output := object{"type": "object", "anyOf": []object{s.named(r.answers), s.named(typeOf[surfaces.Result]())}}
		if r.answers == typeOf[surfaces.Result]() {
			output = maps.Clone(s[r.answers.Name()].(object))
		}
		output["$defs"] = s
		text, err := json.Marshal(output)
		if err != nil {
			panic(fmt.Sprintf("gateway: the schema of %s does not encode: %v", r.tool, err)) // it is made of constants
		}
		outputs[r.tool] = bytes.ReplaceAll(text, []byte(schemaPath), []byte("#/$defs/"))
	}
	return outputs
}

// mcp serves a request of the Model Context Protocol.
func (x *exchange) mcp() error {
	body, free, err := x.read()
	if err != nil {
		return err
	}
	defer free()
	if x.r.Method == http.MethodPost {
		pool := x.g.controls
		if callsTool(body) {
			pool = x.g.calls
		}
		leave, err := x.placeIn(pool)
		if err != nil {
			return err
		}
		defer leave()
	}

	ctx, cancel := context.WithCancel(x.ctx)
	defer cancel()
	if x.r.Method == http.MethodGet {
		go func() {
			select {
			case <-x.g.closing:
				cancel()
			case <-ctx.Done(): // at the latest when mcp returns
			}
		}()
	}
	r := x.r.WithContext(ctx)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	out := &mcpAnswer{answer: x.out, every: x.g.cfg.Heartbeat}
	defer out.stop()
	caller := &mcpCaller{x: x, out: out}
	err = x.g.mcp.Serve(out, r, mcp.Request{Actor: x.caller.Actor, Node: caller, Body: body})
	x.callID = caller.call()
	if err == nil && x.ctx.Err() != nil {
		return errGone
	}
	return err
}

// callsTool says whether a body may run a tool, which can take long.
func callsTool(body []byte) bool {
	var message struct {
		Method string `json:"method"`
	}
	if json.Unmarshal(body, &message) != nil {
		return true // a list of messages, or what will be refused
	}
	return message.Method == "tools/call" || message.Method == "subscriptions/listen"
}

// mcpCaller is the node as the caller of one request sees it. Its call may go on for
// a moment after the request has ended.
type mcpCaller struct {
	x   *exchange
	out *mcpAnswer

	mu     sync.Mutex
	callID string
}

// call names the call that the request was about, if any, for the log.
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

// mcpAnswer lets the library of the protocol write through an answer, and keeps
// streams of calls that say nothing alive.
type mcpAnswer struct {
	*answer
	every time.Duration

	mu      sync.Mutex
	stopped chan struct{} // not nil while the heart beats
	beating sync.WaitGroup
	over    bool
}

// Header implements http.ResponseWriter.
func (a *mcpAnswer) Header() http.Header { return a.header() }

// WriteHeader implements http.ResponseWriter.
func (a *mcpAnswer) WriteHeader(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.start(status)
}

// Write implements http.ResponseWriter.
func (a *mcpAnswer) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.write(p)
}

// write needs the lock.
func (a *mcpAnswer) write(p []byte) (int, error) {
	if !a.begun() {
		h := a.header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Accel-Buffering", "no")
		a.start(http.StatusOK)
	}
	return a.answer.Write(p)
}

// FlushError is how an http.ResponseController flushes.
func (a *mcpAnswer) FlushError() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.flush()
}

// beat writes a comment at fixed intervals until the answer is complete. It is
// called while a tool runs, when the answer is known to be a stream.
func (a *mcpAnswer) beat() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over || a.stopped != nil {
		return
	}
	a.stopped = make(chan struct{})
	a.beating.Go(func() {
		tick := time.NewTicker(a.every)
		defer tick.Stop()
		for {
			select {
			case <-a.stopped:
				return
			case <-tick.C:
			}
			a.mu.Lock()
			_, err := a.write([]byte(heartbeat))
			if err == nil {
				err = a.flush()
			}
			a.mu.Unlock()
			if err != nil {
				return // the server notices that the client has gone
			}
		}
	})
}

func (a *mcpAnswer) stop() {
	a.mu.Lock()
	a.over = true
	if a.stopped != nil {
		close(a.stopped)
	}
	a.mu.Unlock()
	a.beating.Wait()
}
