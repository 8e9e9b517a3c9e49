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
		Use: "show", Short: "Tell which roots the mesh trusts and who holds their keys",
		Example: "  locus authority show\n  locus authority show --json", Args: exactly(0, "no arguments"),
		RunE: verb(a, func(ctx context.Context, c *client.Client, _ []string) (gateway.AuthorityInfo, error) {
			return c.Authority(ctx)
		}, a.showAuthority),
	}
	cmd := &cobra.Command{
		Use: "authority", Short: "Show the mesh's certificate authority, or change its root",
		Example: "  locus authority\n  locus authority rotate begin", Args: cobra.ArbitraryArgs, RunE: listByDefault(show),
	}
	cmd.AddCommand(show, a.authorityRotate())
	return cmd
}

func (a *app) authorityRotate() *cobra.Command {
	return &cobra.Command{
		Use: "rotate begin|advance|rollback", Short: "Take one step of the change of the authority's root",
		Long: `Take one step of the change of the authority's root. No call fails meanwhile:

  begin      makes a new root; all nodes come to trust both
  advance    lets the new root issue; all nodes come to have certificates of it
  advance    forgets the old root
  rollback   goes one step back, as long as the old root is not forgotten

A step that would cut a node off is refused until that node has followed the last
one, or has been removed.`,
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
