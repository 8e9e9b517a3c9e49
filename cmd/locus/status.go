package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/locusrun/locus/cmd/locus/present"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/gateway/client"
)

func (a *app) statusCommand() *cobra.Command {
	call := func(ctx context.Context, c *client.Client, _ []string) (gateway.StatusInfo, error) {
		return c.Status(ctx)
	}
	return &cobra.Command{
		Use: "status", Short: "Tell how the node and its mesh are",
		Example: "  locus status\n  locus status --json", Args: exactly(0, "no arguments"), RunE: verb(a, call, a.showStatus),
	}
}

func (a *app) showStatus(s gateway.StatusInfo) error {
	state := "serving"
	if s.Draining {
		state = "draining"
	}
	var sessions []string
	for _, k := range slices.Sorted(maps.Keys(s.Sessions)) {
		sessions = append(sessions, fmt.Sprintf("%d %s", s.Sessions[k], k))
	}
	if len(sessions) == 0 {
		sessions = []string{"none"}
	}
	rows := [][]string{
		{"node", s.Node + ", " + state},
		{"mesh", fmt.Sprintf("%s, %d node%s, led by %s", s.Cluster, s.Nodes, plural(s.Nodes), s.Leader)},
		{"version", s.Version},
		{"up", present.Span(a.now().Sub(s.StartedAt))},
		{"http", s.HTTP},
		{"listen", s.Listen},
		{"data", s.DataDir},
		{"languages", strings.Join(s.Languages, ", ")},
		{"sessions", strings.Join(sessions, ", ")},
		{"calls", fmt.Sprintf("%d running, %d in all", s.Running, s.CallsTotal)},
		{"memory", present.Bytes(s.MemoryBytes)},
	}
	for _, k := range slices.Sorted(maps.Keys(s.Enforced)) {
		rows = append(rows, []string{"enforced", k + ": " + s.Enforced[k]})
	}
	return present.Table(a.out, nil, rows)
}
