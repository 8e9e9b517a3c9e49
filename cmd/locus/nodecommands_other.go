//go:build !linux

package main

import (
	"context"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/locusrun/locus/cmd/locus/checkup"
	"github.com/locusrun/locus/surfaces"
)

// workForNode does nothing: there is no node here that would start a process of this
// program.
func workForNode() {}

// nodeCommands have the one answer for all that needs a node on this very machine.
func (a *app) nodeCommands() []*cobra.Command {
	var list []*cobra.Command
	for _, name := range []string{"up", "chaos", "bench"} {
		list = append(list, &cobra.Command{
			Use: name, Short: "Only on Linux; this machine can be linked to a mesh",
			Long: `Nodes run on Linux only. On this machine, locus can use a node elsewhere (--server and
--token), and can link the machine to a mesh so that agents can run code on it.`,
			Example:            "  locus " + name,
			DisableFlagParsing: true,
			RunE: func(*cobra.Command, []string) error {
				return misuse("run a node on Linux, and speak to it with --server and --token", "nodes run on Linux, and this is %s", runtime.GOOS)
			},
		})
	}
	return list
}

// joinResult explains why a node could not join a mesh, which there is none of here.
func joinResult(error) (surfaces.Result, bool) { return surfaces.Result{}, false }

// isolation is of nodes only.
func isolation(context.Context) []checkup.Check { return nil }
