package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/locusrun/locus/node/engine"
	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// Steer pauses, resumes, stops, interjects, answers or asks. All but ask also apply to the
// calls that the code has made.
func (e *execution) Steer(ctx context.Context, action string, body []byte) (said json.RawMessage, err error) {
	if refusal := e.checkSteering(action, body); refusal != nil {
		err = refusal
	} else {
		said, err = e.steerTree(ctx, action, body)
	}
	e.node.noteSteered(e.Record, action, err)
	return said, err
}

// checkSteering refuses actions that code in a shell cannot take.
func (e *execution) checkSteering(action string, body []byte) *surfaces.Refusal {
	call := &e.Record.Call
	_, refusal := readSteering(action, body)
	if refusal != nil || action != "interject" || !call.Language.IsShell() || e.Ended() || len(e.Children()) > 0 {
		return refusal
	}
	return invalidArgument("Pause, ask or stop it: messages are for code in python.", "cannot interject call %s: code in %s takes no messages", e.Record.ID, call.Language)
}

// steerTree is Steer without the audit entry, for actions of the node itself.
func (e *execution) steerTree(ctx context.Context, action string, body []byte) (json.RawMessage, error) {
	s, refusal := readSteering(action, body)
	if refusal != nil {
		return nil, refusal
	}
	if child, its, err := e.childAsking(s); action == "answer" && (child != nil || err != nil) {
		if err != nil {
			return nil, e.node.fault(err)
		}
		return child.steerTree(ctx, action, its)
	}
	answered := func() {}
	if action == "answer" {
		answered = e.ResolveAnswer(s.ID)
	}
	said, err := e.steer(ctx, action, s, body)
	if err == nil {
		answered()
		e.propagate(ctx, action, body)
	}
	return said, err
}

// steer applies an action to the call itself.
func (e *execution) steer(ctx context.Context, action string, s steering, body []byte) (json.RawMessage, error) {
	run := e.node.engine.Running(e.Record.ID)
	if e.node.link.InFlight(e.Record.ID) {
		return e.steerMachine(action)
	}
	if run == nil {
		if to, ok := e.node.routes.get(e.Record.ID); ok {
			return askOwner[json.RawMessage](ctx, e.node, s.runs(), registry.NodeID(to.node), methodSteer, steerAsk{e.Actor, e.Record.ID, action, body})
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
			break // only for the functions that the code has called
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

// runState reports whether a call that runs here is suspended, and how much time is left
// until its deadline. Nothing runs yet on a node that is starting.
func (n *Node) runState(callID string) (held bool, left time.Duration) {
	if n.registryIfOpen() == nil {
		return false, 0
	}
	run := n.engine.Running(callID)
	if run == nil {
		return false, 0
	}
	return run.Held(), run.Remaining()
}
