package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/locusrun/locus/cmd/locus/present"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/gateway/client"
)

func (a *app) nodesCommand() *cobra.Command {
	list := a.nodesList()
	cmd := &cobra.Command{
		Use: "nodes", Short: "List, drain, label and remove the nodes of the mesh",
		Long: `List, drain, label and remove the nodes of the mesh. NODE is a node's id or an unambiguous
prefix of it.`,
		Example: "  locus nodes\n  locus nodes drain node-5d0a --wait\n  locus nodes label node-5d0a zone=a\n  locus nodes remove node-5d0a --yes",
		Args:    cobra.ArbitraryArgs, RunE: listByDefault(list),
	}
	cmd.AddCommand(list, a.nodesDrain(), a.nodesUndrain(), a.nodesLabel(), a.nodesRemove())
	return cmd
}

func (a *app) nodesList() *cobra.Command {
	call := func(ctx context.Context, c *client.Client, _ []string) (gateway.NodeList, error) { return c.Nodes(ctx) }
	show := func(nodes gateway.NodeList) error {
		var rows [][]string
		for _, n := range nodes.Nodes {
			draining := "-"
			if n.Draining {
				draining = "yes"
			}
			rows = append(rows, []string{
				n.ID, n.Addr, n.State, nodeRole(n), strconv.Itoa(n.Sessions), strconv.Itoa(n.Running), draining, cmp.Or(labelText(n.Labels), "-"), n.Version,
			})
		}
		return present.Table(a.out, []string{"NODE", "ADDRESS", "STATE", "ROLE", "SESSIONS", "RUNNING", "DRAINING", "LABELS", "VERSION"}, rows)
	}
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the nodes of the mesh",
		Example: "  locus nodes list\n  locus nodes list --json", Args: exactly(0, "no arguments"), RunE: verb(a, call, show),
	}
}

func nodeRole(n gateway.NodeInfo) string {
	switch {
	case n.Leader:
		return "leader"
	case n.Voter:
		return "voter"
	}
	return "follower"
}

func labelText(labels map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, k+"="+labels[k])
	}
	return strings.Join(parts, ",")
}

// findNode returns the node with an id or a prefix of one, with or without the common
// "node-".
func findNode(ctx context.Context, c *client.Client, text string) (gateway.NodeInfo, error) {
	all, err := c.Nodes(ctx)
	if err != nil {
		return gateway.NodeInfo{}, err
	}
	var fit []string
	var found gateway.NodeInfo
	for _, n := range all.Nodes {
		if n.ID == text {
			return n, nil
		}
		if text != "" && (strings.HasPrefix(n.ID, text) || strings.HasPrefix(n.ID, "node-"+text)) {
			fit, found = append(fit, n.ID), n
		}
	}
	switch len(fit) {
	case 0:
		return found, misuse("see them with: locus nodes", "there is no node %q", clip(text))
	case 1:
		return found, nil
	}
	return found, misuse("give more of its id", "%q could be %s", clip(text), strings.Join(fit, " or "))
}

func (a *app) completeNode(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return completeFrom(a, cmd, args, func(ctx context.Context, c *client.Client) ([]string, error) {
		all, err := c.Nodes(ctx)
		var found []string
		for _, n := range all.Nodes {
			found = append(found, fmt.Sprintf("%s\t%s, %s, %d sessions", n.ID, nodeRole(n), n.State, n.Sessions))
		}
		return found, err
	})
}
