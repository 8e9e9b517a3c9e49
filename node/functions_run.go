package node

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/locusrun/locus/node/calls"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/kernel/python"
	"github.com/locusrun/locus/node/primitives"
	"github.com/locusrun/locus/placement"
	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
	"github.com/locusrun/locus/surfaces/tracing"
)

// Bounds on the calls that the code of one call makes by using stored functions.
// primitives_limit bounds their total number.
const (
	// maxDepth bounds the nesting of functions.
	maxDepth = 16
	// maxSiblings bounds the calls that run at the same time at each depth. Calls of one
	// depth do not wait for each other, so this cannot deadlock.
	maxSiblings = 64
)

// Run starts a call that runs a function.
func (s storedFunctions) Run(ctx context.Context, who gateway.Caller, f registry.Function, with gateway.FunctionArguments) gateway.Execution {
	if with.Args == nil {
		with.Args = []json.RawMessage{}
	}
	if with.Kwargs == nil {
		with.Kwargs = map[string]json.RawMessage{}
	}
	data, err := json.Marshal(map[string]any{"json": map[string]any{"args": with.Args, "kwargs": with.Kwargs}})
	if err != nil {
		return s.node.refused(ctx, who, nil, invalidArgument("Give the arguments as JSON.", "the arguments are not JSON: %v", err))
	}
	call := functionCall(who.Actor, f, data, true)
	call.ActorID = who.ActorID
	resolve := func() (surfaces.Call, *surfaces.Refusal) { return call, nil }
	return s.node.run(s.node.traces.call(ctx), s.node.calls.Begin(calls.NewID(), call, s.node.stop), who.Streams, time.Now(), resolve, nil)
}

// functionCall is the call that runs a function.
func functionCall(actor string, f registry.Function, data json.RawMessage, shown bool) surfaces.Call {
	call := pythonCall(actor, f.Venv)
	call.Function, call.FunctionDigest = f.Name, f.Digest
	call.Code, call.Stdin = python.CallProgram(python.Call{Name: f.Name, Source: f.Source, Entry: f.Entry, Data: data, Shown: shown})
	return call
}

// functionProvider provides the stored functions to the code of one call. Each use is a call of its
// own: of the same actor, in the function's environment, with its record on the node that
// has the caller's record.
type functionProvider struct {
	node    *Node
	caller  *calls.Record // the call whose code it is
	sink    surfaces.Sink // the sink of caller
	depth   int           // how many calls enclose caller
	limiter *depthLimiter
	budget  *primitives.Budget
}

var _ primitives.Finder = (*functionProvider)(nil)

// depthLimiter bounds the concurrent calls at each depth below one top-level call.
type depthLimiter struct {
	mu sync.Mutex
	at [maxDepth]chan struct{}
}

// acquire waits for a slot at a depth; done gives it back.
func (t *depthLimiter) acquire(ctx context.Context, depth int) (done func(), err error) {
	t.mu.Lock()
	if t.at[depth] == nil {
		t.at[depth] = make(chan struct{}, maxSiblings)
	}
	places := t.at[depth]
	t.mu.Unlock()
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Functions lists the stored functions.
func (c *functionProvider) Functions(context.Context) ([]primitives.Function, error) {
	list := []primitives.Function{}
	for _, f := range c.node.registry.View().Functions() {
		list = append(list, describe(f))
	}
	return list, nil
}

// describe describes a function to code. It counts as read-only: if the calling code is
// read-only, the function is run read-only too.
func describe(f registry.Function) primitives.Function {
	return primitives.Function{
		Name: primitives.FunctionsNamespace + "." + f.Name, Description: f.Doc, Signature: f.Signature, ReadOnly: true,
	}
}

// Find also finds a function that was just stored on another node.
func (c *functionProvider) Find(ctx context.Context, name string) (primitives.Function, bool, error) {
	f, err := c.function(ctx, name)
	return describe(f), err == nil, err
}

func (c *functionProvider) function(ctx context.Context, name string) (registry.Function, error) {
	name = strings.TrimPrefix(name, primitives.FunctionsNamespace+".")
	f, ok := lookup(ctx, c.node, registry.View.Function, name)
	if ok {
		return f, nil
	}
	message := fmt.Sprintf("there is no stored function %.80s", name)
	if near, ok := surfaces.Nearest(name, c.node.functionNames()); ok {
		message += "; did you mean functions." + near + "?"
	}
	return f, &primitives.Error{Type: primitives.ErrorUnknown, Message: message}
}

// Call runs a function.
func (c *functionProvider) Call(ctx context.Context, name string, data json.RawMessage) (primitives.Value, error) {
	f, err := c.function(ctx, name)
	if err != nil {
		return primitives.Value{}, err
	}
	if c.depth == maxDepth {
		return primitives.Value{}, &primitives.Error{
			Type: primitives.ErrorLimit, Message: fmt.Sprintf("%s was called by a function that was called by another, %d deep, which is the limit", name, maxDepth),
		}
	}
	if !validArguments(data) {
		return primitives.Value{}, &primitives.Error{Type: primitives.ErrorInvalid, Message: fmt.Sprintf("stored functions are called as %s(...)", name)}
	}
	left := primitives.Remaining(ctx)
	if left <= 0 {
		return primitives.Value{}, &primitives.Error{Type: primitives.ErrorEnded, Message: "the deadline of the call has passed"}
	}
	done, err := c.limiter.acquire(ctx, c.depth)
	if err != nil {
		return primitives.Value{}, err
	}
	defer done()
	call := functionCall(c.caller.Actor, f, data, false)
	call.ActorID = c.caller.Call.ActorID
	call.Parent, call.Timeout, call.OnLoss = c.caller.ID, left, c.caller.Call.OnLoss
	call.PrimitivesLimit = c.caller.Call.PrimitivesLimit
	if c.caller.Call.StateMode == surfaces.ReadOnly {
		call.StateMode = surfaces.ReadOnly // without a session: it runs where it can change nothing
	}
	return outcome(name, c.run(ctx, call))
}

// validArguments reports whether the arguments are in one of the formats that the worker sends.
func validArguments(data json.RawMessage) bool {
	var form struct {
		JSON   json.RawMessage `json:"json"`
		Pickle *string         `json:"pickle"`
	}
	return json.Unmarshal(data, &form) == nil && (form.JSON != nil || form.Pickle != nil)
}

// run runs a call to its end. It stops the call when ctx ends.
func (c *functionProvider) run(ctx context.Context, call surfaces.Call) surfaces.Result {
	n := c.node
	kept := call
	kept.Background = true // it must not end when a follower of it leaves
	r := n.calls.Begin(calls.NewID(), kept, n.stop)
	inner := &functionProvider{node: n, caller: r, sink: childSink{r, c.sink}, depth: c.depth + 1, limiter: c.limiter, budget: c.budget}
	// Stopping ends the call. The end of ctx would only cut the connection to a node that
	// runs it.
	lasting := tracing.WithSpanOf(n.ctx, n.traces.call(ctx))
	ledger := inner.ledger(lasting, false)
	r.SetLedger(ledger)
	if c.caller.AddChild(r) {
		n.work.Go(func() { n.pauseChild(c.caller, r) })
	}
	defer c.caller.RemoveChild(r)
	n.work.Go(func() {
		select {
		case <-ctx.Done():
			n.stopUntilEnded(r)
		case <-r.Done():
		}
	})
	n.began(r)
	res := withUsage(ledger, n.placement.Execute(lasting, placement.Job{
		CallID: r.ID, Call: call, Sink: inner.sink, Host: ledger,
		Resolve: func() (surfaces.Call, *surfaces.Refusal) { return call, nil },
	}))
	n.finish(r, res)
	endCallSpan(lasting, r, res)
	return res
}

// ledger makes the ledger of the call. attended says that somebody may answer uses that the
// host cannot perform. Only the trace of ctx is used.
func (c *functionProvider) ledger(ctx context.Context, attended bool) *primitives.Ledger {
	providers := c.node.providers(c.caller)
	providers[primitives.FunctionsNamespace] = c
	cfg := primitives.Config{
		Trace: ctx, ReadOnly: c.caller.Call.StateMode == surfaces.ReadOnly, Budget: c.budget, Offers: c.caller.Call.Primitives,
		Attended: attended, Providers: providers, Caller: c.caller, Settled: c.recordUse, Go: c.node.work.Go, Log: c.node.cfg.Log.With("call_id", c.caller.ID),
	}
	if c.depth > 0 {
		cfg.NoCallerReason = "; a stored function that code calls can use what its host has, and not what the caller of that code offers: give it the value as an argument"
	}
	return primitives.NewLedger(cfg)
}

// raisedMessage is the message and the traceback of an exception. The traceback ends with the
// message again; of that only the first line stays, as it would double the text with each
// function that an error passes through.
func raisedMessage(e *surfaces.Exception) string {
	trace := strings.TrimRight(e.Traceback, "\n")
	said := strings.TrimRight(e.Message, "\n")
	if above, ok := strings.CutSuffix(trace, said); ok {
		first, _, _ := strings.Cut(said, "\n")
		trace = above + first
	}
	return strings.TrimPrefix(e.Message+"\n\n"+trace, "\n\n")
}

// outcome converts the outcome of a function's call to what the calling code gets. A
// failure has the type of the exception, or the code of the call.
func outcome(name string, res surfaces.Result) (primitives.Value, error) {
	switch e := res.Exception; {
	case e != nil && e.Type != "":
		return primitives.Value{}, &primitives.Error{Type: e.Type, Message: raisedMessage(e)}
	case res.Error != nil:
		message := name + ": " + *res.Error
		if res.ErrorType != nil && *res.ErrorType == surfaces.TypeEnvironment {
			message += "\n" + res.Stderr
		}
		return primitives.Value{}, &primitives.Error{Type: string(*res.Code), Message: message}
	case res.Result == nil:
		message := name + " ended its process and gave nothing"
		if res.Exit != nil && res.Exit.Code != nil {
			message += fmt.Sprintf(" but the status %d", *res.Exit.Code)
		}
		return primitives.Value{}, &primitives.Error{Type: "exit", Message: message}
	}
	return primitives.Value{Result: res.Result}, nil
}
