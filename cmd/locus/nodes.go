package main

import (
	"context"
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
	call := func(ctx context.Context, c *client.Client, _ []string) (gateway.NodeList, error) { return c.Nodes(ctx) }
	show := func(nodes gateway.NodeList) error {
		var rows [][]string
		for _, n := range nodes.Nodes {
			rows = append(rows, []string{
				n.ID, n.Addr, n.State, nodeRole(n), strconv.Itoa(n.Sessions), present.Ago(n.RegisteredAt, a.now()), labelText(n.Labels),
			})
		}
		return present.Table(a.out, []string{"NODE", "ADDRESS", "STATE", "ROLE", "SESSIONS", "REGISTERED", "LABELS"}, rows)
	}
	list := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the nodes of the mesh",
		Example: "  locus nodes list\n  locus nodes list --json", Args: exactly(0, "no arguments"), RunE: verb(a, call, show),
	}
	cmd := &cobra.Command{
		Use: "nodes", Short: "List the nodes of the mesh", Example: "  locus nodes\n  locus nodes list --json",
		Args: cobra.ArbitraryArgs, RunE: listByDefault(list),
	}
	cmd.AddCommand(list)
	return cmd
}

func nodeRole(n gateway.NodeInfo) string {
	switch {
	case n.Leader:
		return "leader"
	case n.Voter:
		return "voter"
	}
	return "client"
}

func labelText(labels map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, k+"="+labels[k])
	}
	return strings.Join(parts, ",")
}
