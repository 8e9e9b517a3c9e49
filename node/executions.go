package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/locusrun/locus/node/audit"
	"github.com/locusrun/locus/node/calls"
	"github.com/locusrun/locus/node/engine"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/peer"
	"github.com/locusrun/locus/placement"
	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
	"github.com/locusrun/locus/surfaces/tracing"
)

// execution is a call as the doors see it.
type execution struct {
	*calls.Record
	node *Node
}

var _ gateway.Execution = (*execution)(nil)

// Start validates and starts an execute_code call.
func (n *Node) Start(ctx context.Context, who gateway.Caller, body []byte) gateway.Execution {
	resolve := func() (surfaces.Call, *surfaces.Refusal) { return surfaces.Resolve(body, n.view(who.Actor)) }
	ctx = n.traces.call(ctx)
	_, span := tracing.Start(ctx, tracing.Validate)
	call, refusal := judged(ctx, n, resolve)
	span.End()
	if refusal != nil {
		return n.refused(ctx, who, body, refusal)
	}
	call.Actor = who.Actor
	if call.IdempotencyKey == "" {
		return n.run(ctx, n.calls.Begin(calls.NewID(), call, n.stop), who.Streams, resolve, nil)
	}
	return n.startOnce(ctx, who, body, call, resolve)
}

// run executes a call on a goroutine of its own, under the trace of ctx and not its end.
// streams says that the caller hears the call's events. ended, if not nil, is called when the call has ended.
func (n *Node) run(ctx context.Context, r *calls.Record, streams bool, resolve func() (surfaces.Call, *surfaces.Refusal), ended func()) gateway.Execution {
	n.began(r)
	ctx = tracing.Under(n.ctx, ctx)
	ledger := n.ledger(ctx, r, streams || r.Call.Background)
	r.Keep(ledger)
	n.work.Go(func() {
		res := n.placement.Execute(ctx, placement.Job{
			CallID: r.ID, Call: r.Call, Sink: r, Host: ledger,
			Early: func(res surfaces.Result) { n.finish(r, settled(ledger, res)) },
			Resolve: func() (surfaces.Call, *surfaces.Refusal) {
				call, refusal := resolve()
				call.Actor = r.Actor
				return call, refusal
			},
		})
		n.finish(r, settled(ledger, res))
		traced(ctx, r, res)
		if ended != nil {
			ended()
		}
	})
	// Calls on one session run in the order in which they came, so the next one must
	// not overtake this one on its way.
	select {
	case <-r.Placed():
	case <-r.Done():
	}
	return &execution{r, n}
}

// holdsStill reports whether a call that runs here is held still.
func (n *Node) holdsStill(callID string) bool {
	run := n.engine.Running(callID)
	return run != nil && run.Held()
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

// began says that a call begins.
func (n *Node) began(r *calls.Record) {
	n.noteStart(r)
	n.events.publish("call_started", newCallEvent(r))
}

// finish ends a call and says so. It is in the audit log before anybody has the result. A
// call that was held still beyond its deadline is ended twice: first with an outcome that
// is not known, then with the true one.
func (n *Node) finish(r *calls.Record, res surfaces.Result) {
	if n.parting.Load() && res.Code != nil && *res.Code == surfaces.CodeStopped {
		res.Notice = append(res.Notice, surfaces.Notice{Kind: "node_stopping", Text: "the node is shut down, and the call had not ended within " + n.cfg.Drain.String()})
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

// refused gives a call of which nothing is run. body holds its arguments, if there were
// any.
func (n *Node) refused(ctx context.Context, who gateway.Caller, body []byte, refusal *surfaces.Refusal) gateway.Execution {
	r := n.calls.Refused(who.Actor, refusal, string(n.id))
	n.noteRefused(r, body)
	traced(ctx, r, r.Result())
	return &execution{r, n}
}

// stop makes a call end, and those that its code has made, wherever they run. It
// returns at once.
func (n *Node) stop(callID string) {
	if n.link.Flies(callID) {
		n.link.Stop(callID)
	} else if n.engine.Running(callID) != nil {
		n.stopHere(callID)
	} else if to, ok := n.routes.of(callID); ok {
		n.work.Go(func() { n.stopThere(callID, to) })
	}
	if r := n.calls.Find(callID); r != nil {
		n.stopChildren(r)
	}
}

func (n *Node) stopHere(callID string) {
	if run := n.engine.Running(callID); run != nil {
		run.Stop()
	}
}

// stopThere makes a call end that runs on another node; when that cannot be
// reached, the attempt is given up.
func (n *Node) stopThere(callID string, to route) {
	ctx, cancel := context.WithTimeout(n.ctx, othersWithin)
	defer cancel()
	actor := ""
	if r := n.calls.Find(callID); r != nil {
		actor = r.Actor
	}
	_, err := peer.Ask[json.RawMessage](ctx, n.mesh, to.node, methodSteer, steerAsk{Actor: actor, CallID: callID, Action: "stop"})
	var refusal *surfaces.Refusal
	if err != nil && !errors.As(err, &refusal) {
		to.cancel(errStopped)
	}
}

var errStopped = errors.New("the call was stopped")

// Execution finds a call of the actor, on whichever node its record is. Where a node that
// may have it does not answer, nobody can tell that there is none.
func (n *Node) Execution(ctx context.Context, who gateway.Caller, callID string) (gateway.Execution, error) {
	if r := n.calls.Get(who.Actor, callID); r != nil {
		return &execution{r, n}, nil
	}
	elsewhere, silent := n.findElsewhere(ctx, who.Actor, callID)
	guest := n.recordHere(who.Actor, callID)
	switch {
	case elsewhere != nil && (guest == nil || !elsewhere.guest):
		return elsewhere, nil
	case guest != nil && (len(silent) == 0 || n.mayServe() || !guest.Ended()):
		// It ran here, and the node that knows all of it cannot be asked. Without a lease
		// what came of it is not an answer: it may have been run again elsewhere.
		return guest, nil
	case len(silent) > 0:
		return nil, &surfaces.Refusal{
			Code: surfaces.CodeOwnerUnreachable, RetryAfterS: 2,
			Message:    fmt.Sprintf("no node that answers holds call %q, and %s, which may hold it, does not answer", callID, silent[0]),
			Suggestion: "Try again when the node is back; locus nodes lists them.",
		}
	}
	return nil, nil
}

// Executions lists the actor's calls on all nodes, newest first.
func (n *Node) Executions(ctx context.Context, who gateway.Caller) []gateway.CallSummary {
	list := n.callsHere(who.Actor)
	for _, more := range askOthers[[]gateway.CallSummary](ctx, n, methodList, actorAsk{who.Actor}) {
		list = append(list, more...)
	}
	slices.SortFunc(list, func(a, b gateway.CallSummary) int { return b.StartedAt.Compare(a.StartedAt) })
	return list
}

// callsHere lists the calls of an actor whose records are here.
func (n *Node) callsHere(actor string) []gateway.CallSummary {
	list := []gateway.CallSummary{}
	for _, r := range n.calls.List(actor) {
		res := r.Result()
		s := gateway.CallSummary{
			CallID: r.ID, Status: res.Status, Code: res.Code, Language: r.Call.Language, StateMode: r.Call.StateMode,
			SessionID: res.SessionID, SessionName: res.SessionName, StartedAt: r.Started.UTC(), DurationMS: res.DurationMS,
			Thought: r.Call.Thought, Parent: r.Call.Parent, Function: r.Call.Function,
		}
		if run := n.engine.Running(r.ID); run != nil {
			s.Paused = run.Paused()
		}
		list = append(list, s)
	}
	return list
}

// ID gives the call's id.
func (e *execution) ID() string { return e.Record.ID }

// Follow tells the call's events and output from a byte on.
func (e *execution) Follow(ctx context.Context, from int64, emit func(gateway.StreamEvent) error) error {
	return follow(ctx, e.Record, from, emit)
}

func follow(ctx context.Context, r *calls.Record, from int64, emit func(gateway.StreamEvent) error) error {
	return r.Follow(ctx, from, func(t calls.Told) error {
		return emit(gateway.StreamEvent{Name: t.Name, Data: t.Data, Offset: t.Offset})
	})
}

// askLimit is the deadline of a question's program when none is given.
const askLimit = 10 * time.Second

// Steer pauses, resumes, stops, asks, interjects or answers. But for questions it
// reaches the calls that the code has made.
func (e *execution) Steer(ctx context.Context, action string, body []byte) (said json.RawMessage, err error) {
	if refusal := e.unable(action, body); refusal != nil {
		err = refusal
	} else {
		said, err = e.guide(ctx, action, body)
	}
	e.node.noteSteered(e.Record, action, err)
	return said, err
}

// unable refuses what code in a shell cannot be steered by.
func (e *execution) unable(action string, body []byte) *surfaces.Refusal {
	call := &e.Record.Call
	_, refusal := readSteering(action, body)
	if refusal != nil || action != "interject" || !call.Language.IsShell() || e.Ended() || len(e.Children()) > 0 {
		return refusal
	}
	return invalidArgument("Pause, ask or stop it: messages are for code in python.", "cannot interject call %s: code in %s takes no messages", e.Record.ID, call.Language)
}

// guide is Steer for what the node itself does, too.
func (e *execution) guide(ctx context.Context, action string, body []byte) (json.RawMessage, error) {
	s, refusal := readSteering(action, body)
	if refusal != nil {
		return nil, refusal
	}
	if child, its, err := e.asking(s); action == "answer" && (child != nil || err != nil) {
		if err != nil {
			return nil, e.node.fault(err)
		}
		return child.guide(ctx, action, its)
	}
	answered := func() {}
	if action == "answer" {
		answered = e.Answering(s.ID)
	}
	said, err := e.steer(ctx, action, s, body)
	if err == nil {
		answered()
		e.reach(ctx, action, body)
	}
	return said, err
}

// steer steers the call itself.
func (e *execution) steer(ctx context.Context, action string, s steering, body []byte) (json.RawMessage, error) {
	run := e.node.engine.Running(e.Record.ID)
	if e.node.link.Flies(e.Record.ID) {
		return e.steerMachine(action)
	}
	if run == nil {
		if to, ok := e.node.routes.of(e.Record.ID); ok {
			return askOwner[json.RawMessage](ctx, e.node, registry.NodeID(to.node), methodSteer, steerAsk{e.Actor, e.Record.ID, action, body})
		}
		return nil, e.notRunning(action)
	}
	var err error
	var told any = map[string]any{"call_id": e.Record.ID, "action": action, "done": true}
	switch action {
	case "pause":
		err = run.Pause()
	case "resume":
		err = run.Resume()
	case "stop":
		run.Stop()
	case "interject":
		if e.Record.Call.Language.IsShell() {
			break // it is for the functions that the code is in
		}
		err = run.Tell(kernel.Message{Kind: kernel.MessageInterject, Text: *first(s.Message, s.Text)})
	case "answer":
		err = run.Tell(kernel.Message{Kind: kernel.MessageAnswer, ID: s.ID, Text: *first(s.Answer, s.Text)})
	case "ask":
		told, err = e.ask(ctx, run, s)
	}
	var refusal *surfaces.Refusal
	switch {
	case errors.Is(err, engine.ErrNotRunning):
		return nil, e.notRunning(action)
	case errors.As(err, &refusal):
		return nil, refusal
	case err != nil:
		return nil, e.node.fault(err)
	}
	return json.Marshal(told)
}

// asked is the answer to ask: the question's own result, the stack of the running
// code and its output so far.
type asked struct {
	engine.Answer
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
}

func (e *execution) ask(ctx context.Context, run *engine.Run, s steering) (any, error) {
	limit := askLimit
	if s.TimeoutS != nil {
		limit = time.Duration(*s.TimeoutS * float64(time.Second))
	}
	call := e.Record.Call
	call.Code, call.Background, call.StateMode = s.Code, true, surfaces.ReadOnly
	question := e.node.calls.Begin(calls.NewID(), call, e.node.stop)
	e.node.noteQuestion(question, e.Record)
	// Nobody attends to it: what it can use is what the host has.
	ledger := e.node.ledger(ctx, question, false)
	question.Keep(ledger)
	answer, err := run.Ask(ctx, question.ID, s.Code, limit, question, ledger)
	if answer.Result != nil {
		*answer.Result = settled(ledger, *answer.Result)
	}
	ledger.End()
	res := surfaces.Result{CallID: question.ID, Status: surfaces.StatusDone, Node: string(e.node.id)}
	if answer.Result != nil {
		res = *answer.Result
	}
	e.node.calls.End(question, res, func(bool) { e.node.noteOutcome(audit.CallEnded, question, res) })
	if err != nil {
		return nil, err
	}
	if answer.Result != nil {
		res := question.Result()
		answer.Result = &res
	}
	so := e.Result()
	return asked{Answer: answer, Stdout: so.Stdout, Stderr: so.Stderr}, nil
}

// notRunning says why a call cannot be steered.
func (e *execution) notRunning(action string) *surfaces.Refusal {
	r := &surfaces.Refusal{Code: surfaces.CodeInvalidArgument, Message: fmt.Sprintf("cannot %s call %s: ", action, e.Record.ID)}
	run := e.node.engine.Running(e.Record.ID)
	switch {
	case e.Ended():
		r.Message += "it has ended"
		r.Suggestion = "Look at what came of it: GET /v1/executions/" + e.Record.ID + ", or locus calls show " + e.Record.ID + "."
	case run != nil && run.Paused():
		r.Message += "it is paused"
		r.Suggestion = "Let it go on first: POST /v1/executions/" + e.Record.ID + "/resume, or locus calls resume " + e.Record.ID + "."
	default:
		r.Message += "its code does not run at the moment"
		r.Suggestion = "Try again in a second; it waits for its turn, is about to begin, or is about to end."
	}
	return r
}

// holds gives the record of a call that this node holds for a caller, or runs for
// another node.
func (n *Node) holds(actor, callID string) *calls.Record {
	if r := n.calls.Get(actor, callID); r != nil {
		return r
	}
	return n.serving.Record(actor, callID)
}

func (n *Node) recordHere(actor, callID string) *execution {
	if r := n.holds(actor, callID); r != nil {
		return &execution{r, n}
	}
	return nil
}
