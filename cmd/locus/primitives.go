package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/locusrun/locus/cmd/locus/present"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/gateway/client"
)

func (a *app) primitivesCommand() *cobra.Command {
	list := a.primitivesList()
	cmd := &cobra.Command{
		Use: "primitives", Short: "Add, list and remove MCP servers whose tools code may call",
		Long: `Add, list and remove MCP servers whose tools an actor's code may call as
"await primitives.NAME.TOOL(...)". Adding and removing is for operators.`,
		Example: "  locus primitives add files --actor planner -- mcp-server-files /srv\n  locus primitives list\n  locus primitives rm files --actor planner",
		Args:    cobra.ArbitraryArgs, RunE: listByDefault(list),
	}
	cmd.AddCommand(a.primitivesAdd(), list, a.primitivesRemove())
	return cmd
}

func (a *app) primitivesAdd() *cobra.Command {
	var want gateway.NewServer
	var env, headers []string
	cmd := &cobra.Command{
		Use: "add [flags] NAME [-- COMMAND ARG...]", Short: "Let an actor's code call the tools of an MCP server",
		Long: `Let an actor's code call the tools of an MCP server. A server of the same NAME is
replaced. The server is either COMMAND, which the node starts and talks to over standard
input and output, or already running at --url. With --allow, only the listed tools may be
called.

COMMAND runs on the node with the node's privileges, outside the sandbox. Values of --env
and --header are never shown again. "--env K" takes K from this command's own environment,
so that no secret need be typed.`,
		Example: "  locus primitives add files -- mcp-server-files /srv\n  locus primitives add files --actor planner --allow read --allow list -- mcp-server-files /srv\n" +
			"  locus primitives add github --env GITHUB_TOKEN -- github-mcp stdio\n  locus primitives add search --url https://example.com/mcp --header Authorization='Bearer TOKEN'",
		Args: func(cmd *cobra.Command, args []string) error {
			switch at := cmd.ArgsLenAtDash(); {
			case at == 1, at < 0 && len(args) == 1:
				return nil
			case at < 0 && len(args) > 1:
				return misuse("put -- before the command", "%q takes one NAME, got %d arguments", cmd.CommandPath(), len(args))
			}
			return misuse("use: "+cmd.UseLine(), "%q takes one NAME before --", cmd.CommandPath())
		},
	}
	s := cmd.Flags()
	s.StringVar(&want.Actor, "actor", "", "`ACTOR` whose code may call it (default: the token's own)")
	s.StringArrayVar(&env, "env", nil, "environment variable `K=V` for the command; repeatable")
	s.StringVar(&want.URL, "url", "", "`URL` of a running server")
	s.StringArrayVar(&headers, "header", nil, "HTTP header `K=V` for the URL; repeatable")
	s.StringArrayVar(&want.Allow, "allow", nil, "exact name of a `TOOL` that may be called; repeatable (default: all)")
	completeFlagAs(cmd, "actor", a.completeActor)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		want.Name, want.Command = args[0], args[1:]
		var err error
		if want.Env, err = a.pairs("env", env); err != nil {
			return err
		}
		if want.Headers, err = a.pairs("header", headers); err != nil {
			return err
		}
		return verb(a, func(ctx context.Context, c *client.Client, _ []string) (gateway.ServerInfo, error) {
			return c.PutPrimitiveServer(ctx, want)
		}, func(s gateway.ServerInfo) error {
			_, err := fmt.Fprintf(a.out, "%s may call primitives.%s\n", present.Sanitise(s.Actor), present.Sanitise(s.Name))
			return err
		})(cmd, args)
	}
	return cmd
}

// pairs parses K=V, or K alone for the value of an environment variable.
func (a *app) pairs(flag string, texts []string) (map[string]string, error) {
	all := make(map[string]string, len(texts))
	for _, text := range texts {
		k, v, ok := strings.Cut(text, "=")
		if !ok && flag == "env" {
			v = a.getenv(k)
			ok = v != ""
		}
		if _, twice := all[k]; !ok || k == "" || twice {
			// The value may be a secret.
			return nil, misuse("give each once, as --"+flag+" K=V", "--%s cannot be used as it is given for %q", flag, clip(k))
		}
		all[k] = v
	}
	return all, nil
}

func (a *app) primitivesList() *cobra.Command {
	var actor string
	cmd := &cobra.Command{
		Use: "list [flags]", Aliases: []string{"ls"}, Short: "List an actor's MCP servers",
		Example: "  locus primitives list\n  locus primitives list --actor planner --json", Args: exactly(0, "no arguments"),
		RunE: verb(a, func(ctx context.Context, c *client.Client, _ []string) (gateway.ServerList, error) {
			return c.PrimitiveServers(ctx, actor)
		}, a.showServers),
	}
	cmd.Flags().StringVar(&actor, "actor", "", "`ACTOR` who owns it (default: the token's own)")
	completeFlagAs(cmd, "actor", a.completeActor)
	return cmd
}

func (a *app) showServers(list gateway.ServerList) error {
	var rows [][]string
	for _, s := range list.Servers {
		functions := "-"
		if len(s.Functions) > 0 {
			functions = strconv.Itoa(len(s.Functions))
		}
		state := s.State
		if s.Problem != "" {
			state += ": " + clip(s.Problem)
		}
		rows = append(rows, []string{
			s.Name, state, clip(cmp.Or(s.URL, strings.Join(s.Command, " "))), cmp.Or(strings.Join(append(s.Env, s.Headers...), ","), "-"),
			cmp.Or(strings.Join(s.Allow, ","), "all"), functions, present.Ago(s.CreatedAt, a.now()),
		})
	}
	return present.Table(a.out, []string{"NAME", "STATE", "SERVER", "SETTINGS", "ALLOWED", "FUNCTIONS", "ADDED"}, rows)
}

func (a *app) primitivesRemove() *cobra.Command {
	var actor string
	cmd := &cobra.Command{
		Use: "rm [flags] NAME", Aliases: []string{"remove"}, Short: "Remove an MCP server from an actor",
		Example: "  locus primitives rm files\n  locus primitives rm files --actor planner", Args: exactly(1, "one NAME"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return completeFrom(a, cmd, args, func(ctx context.Context, c *client.Client) ([]string, error) {
				list, err := c.PrimitiveServers(ctx, actor)
				var found []string
				for _, s := range list.Servers {
					found = append(found, s.Name+"\t"+s.State)
				}
				return found, err
			})
		},
		RunE: verb(a, func(ctx context.Context, c *client.Client, args []string) (gateway.ServerInfo, error) {
			return c.RemovePrimitiveServer(ctx, actor, args[0])
		}, func(s gateway.ServerInfo) error {
			_, err := fmt.Fprintf(a.out, "removed %s\n", present.Sanitise(s.Name))
			return err
		}),
	}
	cmd.Flags().StringVar(&actor, "actor", "", "`ACTOR` who owns it (default: the token's own)")
	completeFlagAs(cmd, "actor", a.completeActor)
	return cmd
}

func (a *app) completeActor(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return completeFrom(a, cmd, args, func(ctx context.Context, c *client.Client) ([]string, error) {
		all, err := c.Actors(ctx)
		var found []string
		for _, x := range all.Actors {
			if x.EndedAt == nil {
				found = append(found, x.Name)
			}
		}
		return found, err
	})
}
