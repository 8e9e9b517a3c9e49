package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/locusrun/locus/cmd/locus/top"
)

func (a *app) topCommand() *cobra.Command {
	var once bool
	var by string
	cmd := &cobra.Command{
		Use: "top [flags]", Short: "Watch nodes, sessions and calls live, and steer calls",
		Long: `Watch the nodes of the mesh, and the sessions, running calls and machines of the token's
actor (for an operator: all machines). With an operator's token the screen follows the
events of the mesh; with another token it is refreshed every two seconds.

Keys:
  up, down  select a call
  p         pause or resume it, after a confirmation
  x         stop it, after a confirmation
  s         sort by time, load or name
  q         quit

With --once, or if the output is not a terminal, one frame is printed. With --json, one
object {at, status, nodes, sessions, session_limit, executions, machines} is printed.`,
		Example: "  locus top\n  locus top --sort load\n  locus top --once\n  locus top --json",
		Args:    exactly(0, "only flags"),
	}
	cmd.Flags().BoolVar(&once, "once", false, "print one frame and exit")
	cmd.Flags().StringVar(&by, "sort", string(top.ByTime), "sort by `ORDER`: time (newest first), load (largest first) or name")
	a.completeFlag(cmd, "sort", names(top.Orders()))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !slices.Contains(top.Orders(), top.Order(by)) {
			return misuse("give time, load or name with --sort", "there is no order %q", clip(by))
		}
		c, err := a.client()
		if err != nil {
			return err
		}
		defer c.Close()
		first, err := top.Take(cmd.Context(), c, a.now)
		switch {
		case err != nil:
			return err
		case a.json:
			first.Sort(top.Order(by))
			return a.printJSON(first)
		case once || !a.typed || !a.shown || a.getenv("TERM") == "dumb":
			_, err := io.WriteString(a.out, top.Text(first, top.Order(by)))
			return err
		}
		pressed, release := a.interrupts()
		defer release()
		err = top.Run(cmd.Context(), c, a.now, first, top.Order(by), top.Terminal{In: a.in, Out: a.screen(), Color: a.getenv("NO_COLOR") == "", Interrupts: pressed})
		if err != nil {
			return fmt.Errorf("the terminal: %w", err)
		}
		return nil
	}
	return cmd
}
