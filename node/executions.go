package node

import (
	"context"
	"time"

	"github.com/locusrun/locus/node/audit"
	"github.com/locusrun/locus/node/calls"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/placement"
	"github.com/locusrun/locus/surfaces"
	"github.com/locusrun/locus/surfaces/tracing"
)

// execution is a call as the gateway serves it.
type execution struct {
	*calls.Record
	node *Node
}

var _ gateway.Execution = (*execution)(nil)

// Start validates and starts an execute_code call.
func (n *Node) Start(ctx context.Context, who gateway.Caller, body []byte) gateway.Execution {
	arrived := time.Now()
	resolve := func() (surfaces.Call, *surfaces.Refusal) { return surfaces.Resolve(body, n.view(who.Actor)) }
	ctx = n.traces.call(ctx)
	_, span := tracing.Start(ctx, tracing.Validate)
	call, refusal := resolveFresh(ctx, n, resolve)
	span.End()
	if refusal != nil {
		return n.refused(ctx, who, body, refusal)
	}
	call.Actor, call.ActorID = who.Actor, who.ActorID
	if call.IdempotencyKey == "" {
		return n.run(ctx, n.calls.Begin(calls.NewID(), call, n.stop), who.Streams, arrived, resolve, nil)
	}
	return n.startOnce(ctx, who, body, call, arrived, resolve)
}

// run executes a call, which arrived at that time, on a goroutine of its own. It takes the
// trace of ctx, but does not end with it. streams says that the caller reads the call's
// events. ended, if not nil, is called when the call has ended.
func (n *Node) run(ctx context.Context, r *calls.Record, streams bool, arrived time.Time, resolve func() (surfaces.Call, *surfaces.Refusal), ended func()) gateway.Execution {
	n.began(r)
	ctx = tracing.WithSpanOf(n.ctx, ctx)
	ledger := n.ledger(ctx, r, streams || r.Call.Background)
	r.SetLedger(ledger)
	n.work.Go(func() {
		res := n.placement.Execute(ctx, placement.Job{
			CallID: r.ID, Arrived: arrived, Call: r.Call, Sink: r, Host: ledger,
			Early: func(res surfaces.Result) { n.finish(r, withUsage(ledger, res)) },
			Resolve: func() (surfaces.Call, *surfaces.Refusal) {
				call, refusal := resolve()
				call.Actor, call.ActorID = r.Actor, r.Call.ActorID
				return call, refusal
			},
		})
		n.finish(r, withUsage(ledger, res))
		endCallSpan(ctx, r, res)
		if ended != nil {
			ended()
		}
	})
	if n.stoppingCalls.Load() {
		n.work.Go(func() { n.stopUntilEnded(r) }) // it has begun too late to be stopped with the others
	}
	// Calls on one session run in the order of their arrival: wait until this one is
	// placed, so that the next cannot overtake it.
	select {
	case <-r.Placed():
	case <-r.Done():
	}
	return &execution{r, n}
}

type callEvent struct {
	CallID    string             `json:"call_id"`
	Parent    string             `json:"parent,omitempty"`
	Function  string             `json:"function,omitempty"`
	Actor     string             `json:"actor"`
	Language  surfaces.Language  `json:"language"`
	StateMode surfaces.StateMode `json:"state_mode"`
	Status    surfaces.Status    `json:"status,omitempty"`
	Code      *surfaces.Code     `json:"code,omitempty"`
	Duration  float64            `json:"duration_ms,omitempty"`
}

func newCallEvent(r *calls.Record) callEvent {
	return callEvent{
		CallID: r.ID, Parent: r.Call.Parent, Function: r.Call.Function,
		Actor: r.Actor, Language: r.Call.Language, StateMode: r.Call.StateMode,
	}
}

// began audits and publishes the start of a call.
func (n *Node) began(r *calls.Record) {
	n.noteStart(r)
	n.events.publish("call_started", newCallEvent(r))
}

// finish ends a call: it audits the outcome, then hands it out, then publishes it. A call
// that was still suspended at its deadline is finished twice: first with an unknown
// outcome, then with the real one.
func (n *Node) finish(r *calls.Record, res surfaces.Result) {
	if n.stoppingCalls.Load() && res.Code != nil && *res.Code == surfaces.CodeStopped {
		res.Notice = append(res.Notice, surfaces.Notice{Kind: "node_stopping", Text: "the node is shut down, and the call had not ended when the drain time of " + n.cfg.Drain.String() + " was over"})
	}
	what := audit.CallEnded
	note := func(amends bool) {
		if amends {
			what = audit.CallAmended
		}
		n.noteOutcome(what, r, res)
	}
	if !n.calls.End(r, res, note) {
		return
	}
	e := newCallEvent(r)
	e.Status, e.Code, e.Duration = res.Status, res.Code, res.DurationMS
	n.events.publish("call_ended", e)
	if res.SessionCreated {
		n.events.publish("session_created", map[string]any{
			"actor": r.Actor, "language": r.Call.Language, "session_id": res.SessionID, "session_name": res.SessionName,
		})
	}
}

// refused records a call that is refused before it runs. body is the request, if there was
// one.
func (n *Node) refused(ctx context.Context, who gateway.Caller, body []byte, refusal *surfaces.Refusal) gateway.Execution {
	r := n.calls.Refused(who.Actor, refusal, string(n.id))
	n.noteRefused(r, body)
	endCallSpan(ctx, r, r.Result())
	return &execution{r, n}
}

// ID returns the call's id.
func (e *execution) ID() string { return e.Record.ID }

// Follow emits the call's events, and its output from a byte offset on.
func (e *execution) Follow(ctx context.Context, from int64, emit func(gateway.StreamEvent) error) error {
	return follow(ctx, e.Record, from, emit)
}

func follow(ctx context.Context, r *calls.Record, from int64, emit func(gateway.StreamEvent) error) error {
	return r.Follow(ctx, from, func(t calls.Event) error {
		return emit(gateway.StreamEvent{Name: t.Name, Data: t.Data, Offset: t.Offset})
	})
}
