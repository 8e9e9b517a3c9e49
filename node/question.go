package node

import (
	"context"
	"time"

	"github.com/locusrun/locus/node/audit"
	"github.com/locusrun/locus/node/calls"
	"github.com/locusrun/locus/node/engine"
	"github.com/locusrun/locus/surfaces"
	"github.com/locusrun/locus/surfaces/tracing"
)

// askLimit is the default deadline of a question's program.
const askLimit = 10 * time.Second

// askAnswer is the reply to ask: the result of the question's program, the stack of the running
// code and its output so far.
type askAnswer struct {
	engine.Answer
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
}

func (e *execution) ask(ctx context.Context, run *engine.Run, s steering) (any, error) {
	ctx, span := tracing.Start(run.Traced(ctx), tracing.Ask)
	defer span.End()
	call := e.Record.Call
	call.Code, call.Background, call.StateMode = s.Code, true, surfaces.ReadOnly
	question := e.node.calls.Begin(calls.NewID(), call, e.node.stop)
	e.node.noteQuestion(question, e.Record)
	// Nobody answers uses of it, so it can use only what the host provides.
	ledger := e.node.ledger(ctx, question, false)
	question.SetLedger(ledger)
	answer, err := run.Ask(ctx, question.ID, s.Code, s.runs(), question, ledger)
	if answer.Result != nil {
		*answer.Result = withUsage(ledger, *answer.Result)
	}
	ledger.End()
	res := surfaces.Result{CallID: question.ID, Status: surfaces.StatusDone, Node: string(e.node.id)}
	if answer.Result != nil {
		res = *answer.Result
	}
	endCallSpan(ctx, question, res)
	e.node.calls.End(question, res, func(bool) { e.node.noteOutcome(audit.CallEnded, question, res) })
	if err != nil {
		return nil, err
	}
	if answer.Result != nil {
		res := question.Result()
		answer.Result = &res
	}
	so := e.Result()
	return askAnswer{Answer: answer, Stdout: so.Stdout, Stderr: so.Stderr}, nil
}
