//go:build !linux

package main

import (
	"context"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/locusrun/locus/cmd/locus/checkup"
	"github.com/locusrun/locus/surfaces"
)

// workForNode does nothing: nodes, and so their helpers, run on Linux only.
func workForNode() {}

// nodeCommands are placeholders that say that nodes run on Linux only.
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

// joinResult is never true: nodes run on Linux only.
func joinResult(error) (surfaces.Result, bool) { return surfaces.Result{}, false }

// isolation is for nodes only.
func isolation(context.Context) []checkup.Check { return nil }
