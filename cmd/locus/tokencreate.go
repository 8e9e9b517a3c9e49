package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/locusrun/locus/cmd/locus/settings"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/gateway/client"
)

// The roles that a token can have.
const (
	roleActor = "actor"
	roleAdmin = "admin"
	roleNode  = "node"
	roleLink  = "link"
	roleVM    = "vm"
)

// tokenFlags holds the flags of locus token create.
type tokenFlags struct {
	role, name, labels, owner string
	ttl                       time.Duration
	uses                      int
}

func (a *app) tokenCreate() *cobra.Command {
	var want tokenFlags
	cmd := &cobra.Command{
		Use: "create [flags]", Short: "Create a token and print it once",
		Long: `Create a token and print it. It cannot be shown again.

  --role actor   a new actor and its token, valid until revoked (the default)
  --role admin   an actor that may also administer the mesh
  --role node    a join token for "locus up --join"
  --role link    a join token for "locus link" on a person's machine
  --role vm      a join token for "locus link --as vm" on a machine kept for an agent

A linked machine runs the code of one actor only, its --owner. A join token is valid for
15 minutes and one machine, unless --ttl and --uses say otherwise.`,
		Example: "  locus token create --role actor --name planner\n  export LOCUS_TOKEN=$(locus token create --name planner)\n  locus token create --name trainer --labels gpu=yes\n" +
			"  locus token create --role node --ttl 1h --uses 3 --labels zone=a\n  locus token create --role link --owner planner\n  locus token create --role admin --name ops --json",
		Args: exactly(0, "only flags"),
	}
	s := cmd.Flags()
	s.StringVar(&want.role, "role", roleActor, "purpose of the token: actor, admin, node, link or vm")
	s.StringVar(&want.name, "name", "", "`NAME` of the actor")
	s.StringVar(&want.owner, "owner", "", "`ACTOR` whose code the machine will run (default: the token's own)")
	s.DurationVar(&want.ttl, "ttl", 15*time.Minute, "validity of a join token, at most 24h")
	s.IntVar(&want.uses, "uses", 1, "let at most `N` machines join with it")
	s.StringVar(&want.labels, "labels", "", "labels `k=v,...`: for an actor, those a node must have to run its code; for a join token, those given to the joining nodes")
	a.completeFlag(cmd, "role", []string{roleActor, roleAdmin, roleNode, roleLink, roleVM})
	completeFlagAs(cmd, "owner", a.completeActor)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := want.check(cmd); err != nil {
			return err
		}
		labels, err := settings.Labels(want.labels)
		if err != nil {
			return asUsage(err)
		}
		if want.joins() {
			return a.createJoinToken(cmd, gateway.NewToken{Role: want.role, Owner: want.owner, TTLS: want.ttl.Seconds(), Uses: want.uses, Labels: labels})
		}
		return verb(a, func(ctx context.Context, c *client.Client, _ []string) (gateway.ActorInfo, error) {
			return c.CreateActor(ctx, gateway.NewActor{Name: want.name, Operator: want.role == roleAdmin, Labels: labels})
		}, func(actor gateway.ActorInfo) error {
			_, err := fmt.Fprintln(a.out, actor.Token)
			return err
		})(cmd, args)
	}
	return cmd
}

// joins reports that the token is for a machine that joins the mesh.
func (w tokenFlags) joins() bool {
	return w.role == roleNode || w.role == roleLink || w.role == roleVM
}

// check refuses flags that do not fit the role.
func (w tokenFlags) check(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	switch w.role {
	case roleActor, roleAdmin:
		for _, flag := range []string{"ttl", "uses", "owner"} {
			if given(flag) {
				return misuse("drop --"+flag+", or give --role node, link or vm", "--%s is for join tokens, and an %s's token is none", flag, w.role)
			}
		}
		if w.name == "" {
			return misuse("give it with --name NAME", "the actor has no name")
		}
	case roleNode, roleLink, roleVM:
		switch {
		case given("name"):
			return misuse("drop --name, or give --role actor", "a join token has no name: a machine gets its own when it joins")
		case w.role == roleNode && given("owner"):
			return misuse("drop --owner, or give --role link or vm", "a node belongs to no actor")
		case w.role != roleNode && given("labels"):
			return misuse("drop --labels, or give --role node", "a linked machine has no labels")
		case w.ttl <= 0:
			return misuse("give a time such as --ttl 15m", "--ttl cannot be %s", w.ttl)
		case w.uses < 1:
			return misuse("give a number of 1 or more", "--uses cannot be %d", w.uses)
		}
	default:
		return misuse("give --role actor, admin, node, link or vm", "there are no tokens of role %q", w.role)
	}
	return nil
}

func (a *app) createJoinToken(cmd *cobra.Command, want gateway.NewToken) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	return answered(a, func() (gateway.TokenInfo, error) { return c.CreateToken(cmd.Context(), want) }, func(t gateway.TokenInfo) error {
		if _, err := fmt.Fprintln(a.out, t.Token); err != nil {
			return err
		}
		a.tellJoining(cmd.Context(), c, t.Role)
		return nil
	})
}

// tellJoining prints how to use the token. If the node's address cannot be found, the hint
// is left out; the token is valid all the same.
func (a *app) tellJoining(ctx context.Context, c *client.Client, role string) {
	status, err := c.Status(ctx)
	if err != nil {
		return
	}
	how := "up --listen ADDR:PORT"
	switch role {
	case roleLink:
		how = "link"
	case roleVM:
		how = "link --as vm"
	}
	fmt.Fprintf(a.err, "locus: on the other machine: locus %s --join %s --token TOKEN\n", how, status.Listen)
	host, _, err := net.SplitHostPort(status.Listen)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsLoopback() {
		fmt.Fprintf(a.err, "locus: this node listens on %s only, which other machines cannot reach; to change that, start it with --listen ADDR:PORT\n", host)
	}
}
