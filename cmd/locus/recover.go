//go:build linux

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/locusrun/locus/cmd/locus/settings"
	"github.com/locusrun/locus/node"
	"github.com/locusrun/locus/node/gateway/client"
)

func (a *app) recoverCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "recover [flags]", Short: "Turn a stopped node into a one-node mesh after most voters are gone",
		Long: `Make the stopped node of --data the only voter of its mesh, after most voters are gone
permanently. All sessions are lost, and so is everything that only the missing voters had
committed. Actors, names and nodes are kept.

First shut down all other nodes of the old mesh, keep them down, and wait half a minute.
They rejoin with an empty data directory and a new token. Never recover two nodes.`,
		Example: "  locus recover --data /var/lib/locus\n  locus recover --data /var/lib/locus --yes --json",
		Args:    exactly(0, "only flags"),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	cmd.RunE = func(*cobra.Command, []string) error {
		dir, err := client.DataDir(a.hints.Data, a.getenv)
		if err != nil {
			return asUsage(err)
		}
		cfg := node.Config{DataDir: dir}
		joined, err := cfg.Joined()
		if err != nil {
			return asUsage(err)
		}
		if !joined {
			return misuse("give the directory of a node with --data", "%s is not the data directory of a node", dir)
		}
		if !yes {
			if err := a.confirm(fmt.Sprintf("Make the node of %s the whole mesh? All sessions are lost.", dir)); err != nil {
				return err
			}
		}
		return a.recoverNode(cfg)
	}
	return cmd
}

func (a *app) recoverNode(cfg node.Config) error {
	release, err := settings.Lock(cfg.DataDir)
	var held *settings.LockedError
	if errors.As(err, &held) {
		return misuse("shut it down first", "%s", held.Error())
	}
	if err != nil {
		return asUsage(err)
	}
	if err := errors.Join(cfg.Recover(), release()); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(map[string]string{"recovered": cfg.DataDir})
	}
	_, err = fmt.Fprintf(a.out, "recovered; start it with: locus up --data %s\n", cfg.DataDir)
	return err
}
