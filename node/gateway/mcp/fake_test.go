package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/locusrun/locus/surfaces"
)

// patience bounds every wait of these tests. It is not a goal.
const patience = time.Minute

// fakeNode is a Node whose call is a script.
type fakeNode struct {
	script func(*fakeCall) surfaces.Result

	mu     sync.Mutex
	call   *fakeCall
	sent   []string
	calls  int
	failed error
}

// fakeCall is the one call of a fakeNode. Its events are kept for who comes again.
type fakeCall struct {
	mu       sync.Mutex
	events   []Event
	changed  chan struct{}
	done     chan struct{}
	stopped  chan struct{}
	stopOnce sync.Once
	result   surfaces.Result
	answers  chan string
}

func (c *fakeCall) say(name string, data any) {
	raw, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, Event{Name: name, Data: raw})
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *fakeCall) print(text string) { c.say("stdout", map[string]string{"text": text}) }

// ask is request_clarification.
func (c *fakeCall) ask(id, question string) string {
	c.say("clarification", map[string]string{"id": id, "question": question})
	select {
	case answer := <-c.answers:
		return answer
	case <-c.stopped:
		return ""
	}
}

func (n *fakeNode) Execute(ctx context.Context, arguments json.RawMessage, emit func(Event) error) (surfaces.Result, error) {
	n.mu.Lock()
	n.sent = append(n.sent, string(arguments))
	n.calls++
	c := &fakeCall{changed: make(chan struct{}), done: make(chan struct{}), stopped: make(chan struct{}), answers: make(chan string)}
	n.call = c
	failed := n.failed
	n.mu.Unlock()
	if failed != nil {
		return surfaces.Result{}, failed
	}
	c.say("started", map[string]string{"call_id": "c1", "node": "n1"})
	go func() {
		c.result = n.script(c)
		close(c.done)
	}()
	return c.follow(ctx, emit)
}

func (c *fakeCall) follow(ctx context.Context, emit func(Event) error) (surfaces.Result, error) {
	for next := 0; ; {
		c.mu.Lock()
		events, changed := c.events[next:], c.changed
		c.mu.Unlock()
		for _, ev := range events {
			if err := emit(ev); err != nil {
				return surfaces.Result{}, err
			}
		}
		if next += len(events); len(events) > 0 {
			continue
		}
		select {
		case <-changed:
		case <-c.done:
			c.mu.Lock()
			more := len(c.events) > next
			c.mu.Unlock()
			if !more {
				return c.result, nil
			}
		case <-ctx.Done():
			c.stopOnce.Do(func() { close(c.stopped) })
			return surfaces.Result{}, context.Cause(ctx)
		}
	}
}

func (n *fakeNode) running() *fakeCall {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.call
}

func (n *fakeNode) Follow(ctx context.Context, callID string, _ int64, emit func(Event) error) (surfaces.Result, error) {
	c := n.running()
	if callID != "c1" || c == nil {
		return surfaces.Result{}, surfaces.UnknownExecution(callID)
	}
	return c.follow(ctx, emit)
}

func (n *fakeNode) Call(_ context.Context, callID string) (surfaces.Result, error) {
	c := n.running()
	switch {
	case callID == "broken":
		return surfaces.Result{}, errors.New("the disk is on fire")
	case callID == "panics":
		panic("the node is on fire")
	case callID != "c1" || c == nil:
		return surfaces.Result{}, surfaces.UnknownExecution(callID)
	}
	select {
	case <-c.done:
		return c.result, nil
	default:
		return surfaces.Result{CallID: "c1", Status: surfaces.StatusRunning}, nil
	}
}

func (n *fakeNode) Answer(ctx context.Context, callID, questionID, answer string) error {
	if callID != "c1" {
		return surfaces.UnknownExecution(callID)
	}
	select {
	case n.running().answers <- questionID + ": " + answer:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (n *fakeNode) AnswerPrimitive(ctx context.Context, callID, seq string, answer json.RawMessage) error {
	return n.Answer(ctx, callID, seq, string(answer))
}

func (n *fakeNode) Tool(_ context.Context, name string, arguments json.RawMessage) (json.RawMessage, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sent = append(n.sent, name+" "+string(arguments))
	switch name {
	case surfaces.ToolClose:
		return nil, &surfaces.Refusal{Code: surfaces.CodeSessionMismatch, Message: "it is another", Suggestion: "Drop session_id."}
	case surfaces.ToolReset:
		panic("the node is on fire")
	}
	return json.RawMessage(`{"sessions":[],"limit":20}`), nil
}

func (n *fakeNode) Explain(err error) surfaces.Result {
	var refusal *surfaces.Refusal
	if !errors.As(err, &refusal) {
		refusal = surfaces.Internal("id-7")
	}
	return refusal.Result(surfaces.Partial{})
}

// done is a good result.
func done(value string) surfaces.Result {
	return surfaces.Result{CallID: "c1", Status: surfaces.StatusDone, Result: json.RawMessage(value), Node: "n1", Attempts: 1}
}

// client is a client of the protocol at the other end of two pipes.
type client struct {
	*sdk.ClientSession
	served chan error
	hangUp func() error // closes the server's input
	gone   atomic.Bool  // the server is told that nobody reads its output

	mu   sync.Mutex
	told []*sdk.ProgressNotificationParams
}

func (c *client) progress() []*sdk.ProgressNotificationParams {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*sdk.ProgressNotificationParams(nil), c.told...)
}

// versions are those of the handshake, and of the rounds.
var versions = []string{"2025-06-18", "2025-11-25", "2026-07-28"}

// connect serves a node to a client of a version. elicit may be nil.
func connect(t *testing.T, node Node, version string, elicit func(question string) *sdk.ElicitResult) (*client, context.Context) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	c := &client{served: make(chan error, 1), hangUp: fromClient.Close}
	go func() {
		c.served <- Serve(ctx, Config{Version: "test", Outputs: outputs(), Unread: c.gone.Load}, node, toServer, fromServer)
	}()
	options := &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, req *sdk.ProgressNotificationClientRequest) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.told = append(c.told, req.Params)
		},
	}
	if elicit != nil {
		options.ElicitationHandler = func(_ context.Context, req *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return elicit(req.Params.Message), nil
		}
	}
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, options).
		Connect(ctx, &sdk.IOTransport{Reader: toClient, Writer: fromClient}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	c.ClientSession = session
	t.Cleanup(func() {
		c.gone.Store(true)
		_ = session.Close()
		select {
		case err := <-c.served:
			if err != nil {
				t.Errorf("Serve ended with %v", err)
			}
		case <-time.After(patience):
			t.Error("Serve does not end with its client")
		}
	})
	return c, ctx
}

func outputs() map[string]json.RawMessage {
	all := make(map[string]json.RawMessage)
	for _, t := range surfaces.Tools() {
		all[t.Name] = json.RawMessage(`{"type":"object"}`)
	}
	return all
}

// run calls a tool; token asks for progress.
func (c *client) run(ctx context.Context, tool, arguments string, token any) (*sdk.CallToolResult, error) {
	params := &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)}
	if token != nil {
		params.SetProgressToken(token)
	}
	return c.CallTool(ctx, params)
}

func said(t *testing.T, res *sdk.CallToolResult) string {
	t.Helper()
	if len(res.Content) == 0 {
		t.Fatal("no content")
	}
	text, ok := res.Content[0].(*sdk.TextContent)
	if !ok {
		t.Fatalf("the content begins with %T", res.Content[0])
	}
	return text.Text
}

// structured decodes the object of a call.
func structured(t *testing.T, res *sdk.CallToolResult) surfaces.Result {
	t.Helper()
	raw, err := json.Marshal(res.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	var r surfaces.Result
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return r
}

// eventually looks until it is as it should be.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !so() {
		if time.Now().After(deadline) {
			t.Fatal("not in time: " + what)
		}
		time.Sleep(5 * time.Millisecond) // between two looks
	}
}

func accept(answer string) *sdk.ElicitResult {
	return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"answer": answer}}
}
