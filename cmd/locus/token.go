package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/locusrun/locus/cmd/locus/present"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/gateway/client"
)

func (a *app) tokenCommand() *cobra.Command {
	list := a.tokenList()
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Create, list and revoke actors and join tokens",
		Long: `Create, list and revoke actors and join tokens. An actor is one agent working on one
task; it sends its token with every call. A join token lets a machine join the mesh as a
node, or link to it.`,
		Example: "  locus token create --role actor --name planner\n  locus token create --role node\n  locus token list\n  locus token revoke planner",
		Args:    cobra.ArbitraryArgs,
		RunE:    listByDefault(list),
	}
	cmd.AddCommand(a.tokenCreate(), list, a.tokenRevoke())
	return cmd
}

// tokensAndActors lists everything that grants access.
type tokensAndActors struct {
	gateway.ActorList
	gateway.TokenList
}

func allTokens(ctx context.Context, c *client.Client, _ []string) (all tokensAndActors, err error) {
	if all.ActorList, err = c.Actors(ctx); err != nil {
		return all, err
	}
	all.TokenList, err = c.Tokens(ctx)
	return all, err
}

func (a *app) tokenList() *cobra.Command {
	show := func(all tokensAndActors) error {
		if err := a.showActors(all.Actors); err != nil || len(all.Tokens) == 0 {
			return err
		}
		fmt.Fprintln(a.out)
		return a.showJoinTokens(all.Tokens)
	}
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the actors and the join tokens",
		Example: "  locus token list\n  locus token list --json", Args: exactly(0, "no arguments"), RunE: verb(a, allTokens, show),
	}
}

func (a *app) showActors(actors []gateway.ActorInfo) error {
	var rows [][]string
	for _, actor := range actors {
		state, role := "active", "actor"
		if actor.EndedAt != nil {
			state = "ended " + present.Ago(*actor.EndedAt, a.now())
		}
		if actor.Operator {
			role = "admin"
		}
		rows = append(rows, []string{actor.Name, role, state, strconv.Itoa(actor.Sessions), present.Ago(actor.CreatedAt, a.now())})
	}
	return present.Table(a.out, []string{"ACTOR", "ROLE", "STATE", "SESSIONS", "CREATED"}, rows)
}

func (a *app) showJoinTokens(tokens []gateway.TokenInfo) error {
	var rows [][]string
	for _, t := range tokens {
		rows = append(rows, []string{
			t.ID, t.Role, joinTokenState(t, a.now()), strconv.Itoa(t.UsesLeft), t.Issuer, present.Ago(t.CreatedAt, a.now()),
			strings.Join(t.Used, ","), labelText(t.Labels),
		})
	}
	return present.Table(a.out, []string{"JOIN TOKEN", "ROLE", "STATE", "USES LEFT", "BY", "CREATED", "JOINED", "LABELS"}, rows)
}

// joinTokenState says whether a token can still be used, and until when.
func joinTokenState(t gateway.TokenInfo, now time.Time) string {
	switch {
	case t.RevokedAt != nil:
		return "revoked " + present.Ago(*t.RevokedAt, now)
	case t.UsesLeft == 0:
		return "used up"
	case !t.ExpiresAt.After(now):
		return "expired " + present.Ago(t.ExpiresAt, now)
	}
	return "good for " + present.Duration(t.ExpiresAt.Sub(now))
}

func (a *app) tokenRevoke() *cobra.Command {
	show := func(what string) error {
		_, err := fmt.Fprintf(a.out, "revoked %s\n", present.Sanitise(what))
		return err
	}
	return &cobra.Command{
		Use: "revoke NAME|ID", Short: "Revoke an actor's tokens and close its sessions, or withdraw a join token",
		Long: `Revoke an actor's tokens, stop its calls and close its sessions. Or withdraw a join token,
so that no further machine can join with it; machines that have joined stay.`,
		Example: "  locus token revoke planner\n  locus token revoke 4qyfmkz2hs3ce", Args: exactly(1, "the NAME of one actor, or the ID of one join token"),
		ValidArgsFunction: a.completeToken,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.Close()
			all, err := allTokens(cmd.Context(), c, nil)
			if err != nil {
				return err
			}
			id := args[0]
			switch {
			case slices.ContainsFunc(all.Actors, func(x gateway.ActorInfo) bool { return x.Name == id }):
				return answered(a, func() (gateway.ActorInfo, error) { return c.EndActor(cmd.Context(), id) },
					func(x gateway.ActorInfo) error { return show(x.Name) })
			case slices.ContainsFunc(all.Tokens, func(x gateway.TokenInfo) bool { return x.ID == id }):
				return answered(a, func() (gateway.TokenInfo, error) { return c.RevokeToken(cmd.Context(), id) },
					func(x gateway.TokenInfo) error { return show("join token " + x.ID) })
			}
			return misuse("see them with: locus token list", "there is neither an actor nor a join token %q", clip(id))
		},
	}
}

func (a *app) completeToken(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return completeFrom(a, cmd, args, func(ctx context.Context, c *client.Client) ([]string, error) {
		all, err := allTokens(ctx, c, nil)
		var found []string
		for _, actor := range all.Actors {
			if actor.EndedAt == nil {
				found = append(found, actor.Name+"\tactor")
			}
		}
		for _, t := range all.Tokens {
			found = append(found, t.ID+"\tjoin token, "+joinTokenState(t, a.now()))
		}
		return found, err
	})
}
