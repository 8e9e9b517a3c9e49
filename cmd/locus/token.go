package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/locusrun/locus/cmd/locus/present"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/gateway/client"
)

func (a *app) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "token",
		Short:   "Create, list and revoke actors and their tokens",
		Long:    "Create, list and revoke actors and their tokens. An actor is one agent at one task.",
		Example: "  locus token create --role actor --name planner\n  locus token list\n  locus token revoke planner",
		Args:    cobra.ArbitraryArgs,
		RunE:    needsVerb,
	}
	cmd.AddCommand(a.tokenCreate(), a.tokenList(), a.tokenRevoke())
	return cmd
}

func (a *app) tokenCreate() *cobra.Command {
	var role, name string
	cmd := &cobra.Command{
		Use: "create [flags]", Short: "Mint an actor and print its token, which is shown only now",
		Example: "  locus token create --role actor --name planner\n  export LOCUS_TOKEN=$(locus token create --role actor --name planner)",
		Args:    exactly(0, "only flags"),
	}
	cmd.Flags().StringVar(&role, "role", "actor", "what the token is for: actor")
	cmd.Flags().StringVar(&name, "name", "", "`NAME` of the actor")
	a.completeFlag(cmd, "role", []string{"actor"})
	mint := verb(a, func(ctx context.Context, c *client.Client, _ []string) (gateway.ActorInfo, error) {
		return c.CreateActor(ctx, gateway.NewActor{Name: name})
	}, func(actor gateway.ActorInfo) error {
		_, err := fmt.Fprintln(a.out, actor.Token)
		return err
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if role != "actor" {
			return misuse("give --role actor", "there are no tokens of role %q", role)
		}
		if name == "" {
			return misuse("give it with --name NAME", "the actor has no name")
		}
		return mint(cmd, args)
	}
	return cmd
}

func (a *app) tokenList() *cobra.Command {
	call := func(ctx context.Context, c *client.Client, _ []string) (gateway.ActorList, error) {
		return c.Actors(ctx)
	}
	show := func(actors gateway.ActorList) error {
		var rows [][]string
		for _, actor := range actors.Actors {
			state := "active"
			if actor.EndedAt != nil {
				state = "ended " + present.Ago(*actor.EndedAt, a.now())
			}
			rows = append(rows, []string{actor.Name, state, strconv.Itoa(actor.Sessions), present.Ago(actor.CreatedAt, a.now())})
		}
		return present.Table(a.out, []string{"ACTOR", "STATE", "SESSIONS", "CREATED"}, rows)
	}
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the actors that have tokens",
		Example: "  locus token list\n  locus token list --json", Args: exactly(0, "no arguments"), RunE: verb(a, call, show),
	}
}

func (a *app) tokenRevoke() *cobra.Command {
	return &cobra.Command{
		Use: "revoke NAME", Short: "Revoke an actor's tokens and close its sessions",
		Example: "  locus token revoke planner", Args: exactly(1, "the NAME of one actor"),
		RunE: verb(a, func(ctx context.Context, c *client.Client, args []string) (gateway.ActorInfo, error) {
			return c.EndActor(ctx, args[0])
		}, func(actor gateway.ActorInfo) error {
			_, err := fmt.Fprintf(a.out, "revoked %s\n", present.Plain(actor.Name))
			return err
		}),
	}
}
