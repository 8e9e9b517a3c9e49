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
		Use: "machines", Short: "List and unlink the machines that are linked to the mesh",
		Long: `List and unlink linked machines. A linked machine is not a node; it runs code for one
actor. It is a person's own, linked with "locus link", or kept for an agent.`,
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
	cmd.Flags().StringVar(&actor, "actor", "", "only machines of `ACTOR` (default: the token's own; for operators: all)")
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
		Use: "unlink MACHINE", Aliases: []string{"rm"}, Short: "Unlink a machine immediately and permanently",
		Long: `Unlink a machine immediately and permanently: its connection is closed, its certificate is
revoked, and programs running on it are ended. Linking it again takes a new token.
MACHINE is the name of one of your own machines, or any machine's id.`,
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
			_, err := fmt.Fprintf(a.out, "unlinked %s\n", present.Sanitise(m.Name))
			return err
		}),
	}
}
