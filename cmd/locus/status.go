package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/locusrun/locus/cmd/locus/present"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show the state of the node and its mesh",
		Example: "  locus status\n  locus status --json", Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.Close()
			status, err := c.Status(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(status)
			}
			nodes, err := c.Nodes(cmd.Context())
			if err != nil {
				return err
			}
			return a.showStatus(status, nodes.Nodes)
		},
	}
}

func (a *app) showStatus(s gateway.StatusInfo, nodes []gateway.NodeInfo) error {
	rows := [][]string{
		{"node", thisNode(s, nodes)},
		{"mesh", fmt.Sprintf("%s, %s: %s", s.Cluster, surfaces.Count(s.Nodes, "node", "nodes"), tally(count(nodes, func(n gateway.NodeInfo) string { return n.State })))},
		{"leader", cmp.Or(s.Leader, "none that is known here: most of the voters are needed for one")},
		{"voters", voters(nodes)},
		{"sessions", tally(s.Sessions)},
		{"version", s.Version},
		{"you", identity(s)},
		{"up", present.Duration(a.now().Sub(s.StartedAt))},
		{"http", s.HTTP},
		{"listen", s.Listen},
		{"languages", strings.Join(s.Languages, ", ")},
		{"calls", fmt.Sprintf("%d running, %d in all", s.Running, s.CallsTotal)},
		{"memory", present.Bytes(s.MemoryBytes)},
	}
	if s.DataDir != "" {
		rows = append(rows, []string{"data", s.DataDir})
	}
	if s.Audit != nil {
		rows = append(rows, []string{"audit log", auditState(*s.Audit)})
	}
	for _, k := range slices.Sorted(maps.Keys(s.Enforced)) {
		rows = append(rows, []string{"enforced", k + ": " + s.Enforced[k]})
	}
	return present.Table(a.out, nil, rows)
}

// auditState describes the state of the node's audit log.
func auditState(s gateway.AuditStatus) string {
	text := surfaces.Count(s.Head.Seq, "entry", "entries")
	if s.Lost > 0 {
		text += fmt.Sprintf(", %d lost", s.Lost)
	}
	if s.Failing != "" {
		text += ", cannot be written: " + s.Failing
	}
	return text
}

// identity describes the identity of the token.
func identity(s gateway.StatusInfo) string {
	if s.Operator {
		return s.Actor + ", operator"
	}
	return s.Actor
}

// thisNode describes the node that was asked.
func thisNode(s gateway.StatusInfo, nodes []gateway.NodeInfo) string {
	state := "serving"
	parts := []string{s.Node}
	if i := slices.IndexFunc(nodes, func(n gateway.NodeInfo) bool { return n.ID == s.Node }); i >= 0 {
		n := nodes[i]
		if n.State != "up" {
			state = n.State
		}
		if n.Draining || s.Draining {
			state = "draining"
		}
		parts = append(parts, state, nodeRole(n), surfaces.Count(n.Sessions, "session", "sessions"))
		if len(n.Labels) > 0 {
			parts = append(parts, labelText(n.Labels))
		}
	}
	return strings.Join(parts, ", ")
}

// voters lists the voters and marks those that are not up.
func voters(nodes []gateway.NodeInfo) string {
	var list []string
	for _, n := range nodes {
		if !n.Voter {
			continue
		}
		if n.State != "up" {
			n.ID += " (" + n.State + ")"
		}
		list = append(list, n.ID)
	}
	return cmp.Or(strings.Join(list, ", "), "none")
}

func count[T any](list []T, kind func(T) string) map[string]int {
	counts := map[string]int{}
	for _, v := range list {
		counts[kind(v)]++
	}
	return counts
}

// tally formats counts like "1 busy, 2 live".
func tally(counts map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[k], k))
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}
