package node

import (
	"context"
	"fmt"
	"time"

	"github.com/locusrun/locus/node/calls"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/kernel/python"
	"github.com/locusrun/locus/placement"
	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// storedFunctions analyses and runs stored functions. Their source is parsed only by
// Python, in the environment in which they run.
type storedFunctions struct{ node *Node }

var _ functionRunner = storedFunctions{}

// analysisLimit bounds the analysis of a source, without the time that its environment takes
// to build.
const analysisLimit = 30 * time.Second

// Analyse has the source analysed by a stateless call of the actor that stores it.
func (s storedFunctions) Analyse(ctx context.Context, who gateway.Caller, want gateway.NewFunction) (analysis, error) {
	call := pythonCall(who.Actor, want.VenvID)
	call.Code, call.Stdin = python.AnalysisProgram(want.Source, want.Name)
	call.Timeout = analysisLimit
	id := calls.NewID()
	res := s.node.placement.Execute(ctx, placement.Job{
		CallID: id, Call: call, Resolve: func() (surfaces.Call, *surfaces.Refusal) { return call, nil },
		Sink: calls.NewRecord(id, call, func() {}), // the sink's output is discarded
	})
	const advice = "Simplify the source, or store it again."
	switch {
	case res.Code == nil:
	case res.ErrorType != nil && *res.ErrorType == surfaces.TypeEnvironment:
		return analysis{}, &surfaces.Refusal{
			Code: *res.Code, Message: *res.Error, HTTP: 422,
			Suggestion: fmt.Sprintf("Set venv_id to an environment that can be built; this shows what is wrong with this one: locus venv build %d", want.VenvID),
		}
	case res.ErrorType != nil && *res.ErrorType == surfaces.TypeUnavailable, res.Status == surfaces.StatusRefused:
		refusal := &surfaces.Refusal{Code: *res.Code, Message: *res.Error}
		if res.Suggestion != nil {
			refusal.Suggestion = *res.Suggestion
		}
		if res.RetryAfterS != nil {
			refusal.RetryAfterS = *res.RetryAfterS
		}
		return analysis{}, refusal
	default:
		return analysis{}, invalidArgument(advice, "the source cannot be read: %s", *res.Error)
	}
	j, err := python.ReadAnalysis(res.Result)
	switch {
	case err != nil:
		return analysis{}, invalidArgument(advice, "the source cannot be read: the Python of its environment gave no answer")
	case j.Fault != "":
		return analysis{}, invalidArgument(j.Advice, "%s", j.Fault)
	}
	return analysis{Entry: j.Entry, Signature: j.Signature, Doc: j.Doc, Async: j.Async, Needs: j.Needs}, nil
}

// pythonCall is a stateless call of an actor; venv 0 is no environment.
func pythonCall(actor string, venv int) surfaces.Call {
	call := surfaces.Call{Actor: actor, Request: surfaces.Request{
		Language: surfaces.Python, StateMode: surfaces.Stateless, Surface: surfaces.Local,
		Timeout: surfaces.DefaultTimeout, OnLoss: surfaces.Retry, PrimitivesLimit: surfaces.DefaultPrimitives,
	}}
	if venv != 0 {
		call.VenvID = &venv
	}
	return call
}

// checkNeeds refuses a function that calls others which are not stored. Recursion is
// allowed.
func (n *Node) checkNeeds(ctx context.Context, name string, needs []string) error {
	for _, need := range needs {
		if need == name {
			continue
		}
		if _, ok := lookup(ctx, n, registry.View.Function, need); ok {
			continue
		}
		advice := fmt.Sprintf("Store %s first, or take functions.%s out of the source.", need, need)
		if near, ok := surfaces.Nearest(need, n.functionNames()); ok {
			advice = fmt.Sprintf("Did you mean functions.%s? If not, store %s first.", near, need)
		}
		return invalidArgument(advice, "the source calls functions.%.80s, which is not stored", need)
	}
	return nil
}

func (n *Node) functionNames() []string {
	var names []string
	for _, f := range n.registry.View().Functions() {
		names = append(names, f.Name)
	}
	return names
}
