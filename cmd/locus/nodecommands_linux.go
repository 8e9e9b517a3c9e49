package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/locusrun/locus/cmd/locus/checkup"
	"github.com/locusrun/locus/node"
	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/surfaces"
)

// workForNode runs this process as a helper of a node if it was started as one, and then
// exits.
func workForNode() {
	sandbox.RunKeeperIfAsked()
}

// nodeCommands are the commands that need a node on this machine.
func (a *app) nodeCommands() []*cobra.Command {
	return []*cobra.Command{a.upCommand(), a.recoverCommand(), a.chaosCommand(), a.benchCommand()}
}

// joinResult explains why a node could not join a mesh; false for other errors.
func joinResult(err error) (surfaces.Result, bool) {
	var joining *node.JoinProblem
	if !errors.As(err, &joining) {
		return surfaces.Result{}, false
	}
	code := surfaces.CodeInvalidArgument
	if joining.Unavailable {
		code = surfaces.CodeOwnerUnreachable
	}
	return failure(surfaces.StatusRefused, code, joining.Message+".", joining.Advice), true
}

// isolation reports which isolation works on this machine.
func isolation(ctx context.Context) []checkup.Check {
	var checks []checkup.Check
	for _, s := range sandbox.Probe(ctx) {
		checks = append(checks, checkup.Check{Name: s.Name, OK: s.OK, Detail: s.Detail, Advice: s.Advice})
	}
	return checks
}
