package main

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/locusrun/locus/cmd/locus/present"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/gateway/client"
)

func (a *app) authorityCommand() *cobra.Command {
	show := &cobra.Command{
		Use: "show", Short: "Show which roots the mesh trusts and which nodes hold their keys",
		Example: "  locus authority show\n  locus authority show --json", Args: exactly(0, "no arguments"),
		RunE: verb(a, func(ctx context.Context, c *client.Client, _ []string) (gateway.AuthorityInfo, error) {
			return c.Authority(ctx)
		}, a.showAuthority),
	}
	cmd := &cobra.Command{
		Use: "authority", Short: "Show the mesh's certificate authority, or rotate its root",
		Example: "  locus authority\n  locus authority rotate begin", Args: cobra.ArbitraryArgs, RunE: listByDefault(show),
	}
	cmd.AddCommand(show, a.authorityRotate())
	return cmd
}

func (a *app) authorityRotate() *cobra.Command {
	return &cobra.Command{
		Use: "rotate begin|advance|rollback", Short: "Take one step of a root rotation",
		Long: `Take one step of a rotation of the certificate authority's root. No call fails during a
rotation. The steps, in order:

  begin      create a new root; every node starts to trust both
  advance    issue from the new root; every node renews its certificate
  advance    drop the old root

"rollback" goes one step back, as long as the old root has not been dropped.

A step that would cut a node off is refused until that node has completed the previous
step or has been removed.`,
		Example: "  locus authority rotate begin\n  locus authority rotate advance",
		Args:    exactly(1, "one step"), ValidArgs: []string{"begin", "advance", "rollback"},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch args[0] {
			case "begin", "advance", "rollback":
			default:
				return misuse("give begin, advance or rollback", "there is no step %q", clip(args[0]))
			}
			return verb(a, func(ctx context.Context, c *client.Client, args []string) (gateway.AuthorityInfo, error) {
				return c.RotateAuthority(ctx, args[0])
			}, a.showAuthority)(cmd, args)
		},
	}
}

func (a *app) showAuthority(at gateway.AuthorityInfo) error {
	rows := [][]string{{"phase", at.Phase}}
	for i, root := range at.Roots {
		name := "trusted"
		if i == 0 {
			name = "issuing"
		}
		rows = append(rows, []string{name, root})
	}
	rows = append(rows, []string{"held by", cmp.Or(strings.Join(at.Holders, ", "), "no node that answers")})
	if len(at.Waiting) > 0 {
		rows = append(rows, []string{"waits for", strings.Join(at.Waiting, ", ")})
	}
	return present.Table(a.out, nil, rows)
}
