package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/locusrun/locus/cmd/locus/present"
	"github.com/locusrun/locus/cmd/locus/settings"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/gateway/client"
	"github.com/locusrun/locus/surfaces"
)

// nodeVerb makes the RunE of a command about the node in its first argument.
func (a *app) nodeVerb(do func(ctx context.Context, c *client.Client, n gateway.NodeInfo, args []string) (gateway.NodeInfo, error), show func(gateway.NodeInfo) error) func(*cobra.Command, []string) error {
	return verb(a, func(ctx context.Context, c *client.Client, args []string) (gateway.NodeInfo, error) {
		n, err := findNode(ctx, c, args[0])
		if err != nil {
			return n, err
		}
		return do(ctx, c, n, args[1:])
	}, show)
}

func (a *app) nodesDrain() *cobra.Command {
	var wait, undo bool
	cmd := &cobra.Command{
		Use: "drain [flags] NODE", Short: "Stop placing new sessions on a node",
		Long: `Stop placing new sessions on a node. Its existing sessions stay until they are closed,
because sessions cannot be moved. With --wait, wait until none are left. Linked machines
that are connected to it connect to other nodes.`,
		Example: "  locus nodes drain node-5d0a\n  locus nodes drain node-5d0a --wait\n  locus nodes drain node-5d0a --undo",
		Args:    exactly(1, "one NODE"), ValidArgsFunction: a.completeNode,
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the node has no sessions left")
	cmd.Flags().BoolVar(&undo, "undo", false, "place new sessions on the node again")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if wait && undo {
			return misuse("drop one of them", "--wait and --undo do not go together")
		}
		return a.nodeVerb(func(ctx context.Context, c *client.Client, n gateway.NodeInfo, _ []string) (gateway.NodeInfo, error) {
			n, err := c.DrainNode(ctx, n.ID, !undo)
			if err != nil || !wait {
				return n, err
			}
			return a.awaitEmpty(ctx, c, n)
		}, a.showDraining)(cmd, args)
	}
	return cmd
}

func (a *app) nodesUndrain() *cobra.Command {
	return &cobra.Command{
		Use: "undrain NODE", Short: "Place new sessions on a node again",
		Example: "  locus nodes undrain node-5d0a", Args: exactly(1, "one NODE"), ValidArgsFunction: a.completeNode,
		RunE: a.nodeVerb(func(ctx context.Context, c *client.Client, n gateway.NodeInfo, _ []string) (gateway.NodeInfo, error) {
			return c.DrainNode(ctx, n.ID, false)
		}, a.showDraining),
	}
}

func (a *app) showDraining(n gateway.NodeInfo) error {
	text := "takes new sessions"
	if n.Draining {
		text = "takes no new sessions; " + sessionsLeft(n)
	}
	_, err := fmt.Fprintf(a.out, "%s %s\n", present.Sanitise(n.ID), text)
	return err
}

func sessionsLeft(n gateway.NodeInfo) string {
	switch n.Sessions {
	case 0:
		return "none are left"
	case 1:
		return "1 is left"
	}
	return fmt.Sprintf("%d are left", n.Sessions)
}

// lookAgain is the interval for checking a draining node.
const lookAgain = 500 * time.Millisecond

// awaitEmpty waits until a node has no sessions. It fails if the drain is cancelled or the
// node has left the mesh.
func (a *app) awaitEmpty(ctx context.Context, c *client.Client, n gateway.NodeInfo) (gateway.NodeInfo, error) {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for told := -1; ; {
		switch {
		case !n.Draining:
			return n, misuse("drain it again", "somebody has undone the draining of %s", n.ID)
		case n.Sessions == 0, n.State == "expired":
			return n, nil
		case n.Sessions != told:
			told = n.Sessions
			fmt.Fprintf(a.err, "locus: %s: %s\n", present.Sanitise(n.ID), sessionsLeft(n))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return n, context.Cause(ctx)
		}
		var err error
		if n, err = findNode(ctx, c, n.ID); err != nil {
			return n, err
		}
	}
}

func (a *app) nodesLabel() *cobra.Command {
	return &cobra.Command{
		Use: "label NODE k=v,...", Short: "Set the labels of a node",
		Long: `Set the labels of a node, replacing all that were set before. With '' it has none until
its next start, when it takes those of its own --labels again.`,
		Example: "  locus nodes label node-5d0a zone=a,disk=fast\n  locus nodes label node-5d0a ''",
		Args:    exactly(2, "a NODE and its labels"), ValidArgsFunction: a.completeNode,
		RunE: a.nodeVerb(func(ctx context.Context, c *client.Client, n gateway.NodeInfo, args []string) (gateway.NodeInfo, error) {
			labels, err := settings.Labels(args[0])
			if err != nil {
				return n, asUsage(err)
			}
			return c.LabelNode(ctx, n.ID, labels)
		}, func(n gateway.NodeInfo) error {
			has := labelText(n.Labels)
			if has == "" {
				has = "has no labels; at its next start it has those again that it is started with"
			}
			_, err := fmt.Fprintf(a.out, "%s %s\n", present.Sanitise(n.ID), present.Sanitise(has))
			return err
		}),
	}
}

func (a *app) nodesRemove() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "remove [flags] NODE", Short: "Remove a node that is gone from the mesh permanently",
		Long: `Remove a node that is gone from the mesh permanently: it no longer votes, its certificate
is revoked, and its sessions are lost. The machine can rejoin only with a new token and an
empty data directory. A node that is up cannot be removed: drain it and shut it down
first.`,
		Example: "  locus nodes remove node-5d0a\n  locus nodes remove node-5d0a --yes",
		Args:    exactly(1, "one NODE"), ValidArgsFunction: a.completeNode,
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	cmd.RunE = a.nodeVerb(func(ctx context.Context, c *client.Client, n gateway.NodeInfo, _ []string) (gateway.NodeInfo, error) {
		if !yes {
			if err := a.confirm(fmt.Sprintf("Take %s, %s with %s, out of the mesh for good?", n.ID, n.State, surfaces.Count(n.Sessions, "session", "sessions"))); err != nil {
				return n, err
			}
		}
		return c.RemoveNode(ctx, n.ID)
	}, func(n gateway.NodeInfo) error {
		_, err := fmt.Fprintf(a.out, "removed %s\n", present.Sanitise(n.ID))
		return err
	})
	return cmd
}

// confirm asks the user at the terminal. Without a terminal, --yes is required.
func (a *app) confirm(question string) error {
	if !a.typed {
		return misuse("give --yes", "this cannot be undone, and nobody is there to ask")
	}
	fmt.Fprintf(a.err, "%s [y/N] ", present.Sanitise(question))
	line, err := bufio.NewReader(io.LimitReader(a.in, 64)).ReadString('\n')
	if err != nil && line == "" {
		fmt.Fprintln(a.err)
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return misuse("", "nothing was done")
}
