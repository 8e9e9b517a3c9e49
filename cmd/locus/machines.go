package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/locusrun/locus/cmd/locus/present"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/gateway/client"
)

func (a *app) machinesCommand() *cobra.Command {
	list := a.machinesList()
	cmd := &cobra.Command{
		Use: "machines", Short: "List and unlink the machines that are linked with the mesh",
		Long: `List and unlink machines that are no nodes and run code for one actor each: a person's
own, linked with "locus link", and those that are kept for an agent.`,
		Example: "  locus machines\n  locus machines list --actor planner\n  locus machines unlink laptop",
		Args:    cobra.ArbitraryArgs, RunE: listByDefault(list),
	}
	cmd.AddCommand(list, a.machinesUnlink())
	return cmd
}

func (a *app) machinesList() *cobra.Command {
	var actor string
	cmd := &cobra.Command{
		Use: "list [flags]", Aliases: []string{"ls"}, Short: "List the linked machines",
		Example: "  locus machines list\n  locus machines list --actor planner --json", Args: exactly(0, "no arguments"),
		RunE: verb(a, func(ctx context.Context, c *client.Client, _ []string) (gateway.MachineList, error) {
			return c.Machines(ctx, actor)
		}, a.showMachines),
	}
	cmd.Flags().StringVar(&actor, "actor", "", "whose, the `ACTOR`'s (default: the token's own; an operator's are all)")
	completeFlagAs(cmd, "actor", a.completeActor)
	return cmd
}

func (a *app) showMachines(list gateway.MachineList) error {
	var rows [][]string
	for _, m := range list.Machines {
		seen := present.Ago(m.LastSeenAt, a.now())
		if m.State == gateway.MachineConnected {
			seen = "now"
		}
		rows = append(rows, []string{
			m.Name, m.Actor, string(m.Surface), m.State, cmp.Or(strings.Trim(m.OS+"/"+m.Arch, "/"), "-"),
			cmp.Or(strings.Join(m.Languages, ","), "-"), cmp.Or(m.Consent, "-"), seen, m.ID,
		})
	}
	return present.Table(a.out, []string{"MACHINE", "ACTOR", "SURFACE", "STATE", "SYSTEM", "LANGUAGES", "CONSENT", "SEEN", "ID"}, rows)
}

func (a *app) machinesUnlink() *cobra.Command {
	return &cobra.Command{
		Use: "unlink MACHINE", Aliases: []string{"rm"}, Short: "Take a machine out of the mesh at once, for good",
		Long: `Take a machine out of the mesh at once, for good: its connection is cut, its
certificate is worth nothing, and what runs on it is ended there. It can be linked
again only with a new token. MACHINE is the name of one of your own, or any id.`,
		Example: "  locus machines unlink laptop\n  locus machines unlink link-30c4fac5e1ffff5e --json", Args: exactly(1, "one MACHINE"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return completeFrom(a, cmd, args, func(ctx context.Context, c *client.Client) ([]string, error) {
				list, err := c.Machines(ctx, "")
				var found []string
				for _, m := range list.Machines {
					found = append(found, fmt.Sprintf("%s\t%s's, %s", m.Name, m.Actor, m.State))
				}
				return found, err
			})
		},
		RunE: verb(a, func(ctx context.Context, c *client.Client, args []string) (gateway.MachineInfo, error) {
			return c.UnlinkMachine(ctx, args[0])
		}, func(m gateway.MachineInfo) error {
			_, err := fmt.Fprintf(a.out, "unlinked %s\n", present.Plain(m.Name))
			return err
		}),
	}
}
