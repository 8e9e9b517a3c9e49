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
	"github.com/locusrun/locus/surfaces"
)

// maxPyproject bounds the file that is read; the node has its own limit.
const maxPyproject = 1 << 20

func (a *app) venvCommand() *cobra.Command {
	list := a.venvList()
	cmd := &cobra.Command{
		Use: "venv", Short: "Store, build, show and remove environments",
		Long: `Store, build, show and remove environments: pyproject.toml files whose packages Python
code can use. Identical content has the same ID.`,
		Example: "  locus venv add -f pyproject.toml\n  locus venv list\n  locus venv build 1\n  locus venv rm 1",
		Args:    cobra.ArbitraryArgs, RunE: listByDefault(list),
	}
	cmd.AddCommand(a.venvAdd(), list, a.venvShow(), a.venvBuild(), a.venvRemove())
	return cmd
}

func (a *app) venvAdd() *cobra.Command {
	var file, name string
	cmd := &cobra.Command{
		Use: "add -f FILE [flags]", Short: "Store an environment and print its id",
		Long: `Store an environment, the text of a pyproject.toml, and print its id. Nothing is installed
until the environment is first used, or built with "locus venv build".`,
		Example: "  locus venv add -f pyproject.toml\n  locus venv add -f - --name plots < pyproject.toml\n  ID=$(locus venv add -f pyproject.toml)",
		Args:    exactly(0, "only flags"),
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "read the pyproject.toml from `FILE`; - is standard input")
	cmd.Flags().StringVar(&name, "name", "", "display `NAME` (default: the project's name)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if file == "" {
			return misuse("give it with -f pyproject.toml", "there is no file to store")
		}
		text, err := a.readText("-f", file, maxPyproject)
		if err != nil {
			return err
		}
		return verb(a, func(ctx context.Context, c *client.Client, _ []string) (gateway.VenvInfo, error) {
			return c.AddVenv(ctx, gateway.NewVenv{Pyproject: text, Name: name})
		}, func(v gateway.VenvInfo) error {
			_, err := fmt.Fprintln(a.out, v.ID)
			return err
		})(cmd, args)
	}
	return cmd
}

func (a *app) venvList() *cobra.Command {
	call := func(ctx context.Context, c *client.Client, _ []string) (gateway.VenvList, error) { return c.Venvs(ctx) }
	show := func(list gateway.VenvList) error {
		var rows [][]string
		for _, v := range list.Venvs {
			rows = append(rows, []string{
				strconv.Itoa(v.ID), v.Name, yesNo(v.Locked), cmp.Or(strings.Join(v.Built, ","), "-"), v.CreatedBy, present.Ago(v.CreatedAt, a.now()),
			})
		}
		return present.Table(a.out, []string{"ID", "NAME", "LOCKED", "BUILT ON", "BY", "CREATED"}, rows)
	}
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the environments",
		Example: "  locus venv list\n  locus venv list --json", Args: exactly(0, "no arguments"), RunE: verb(a, call, show),
	}
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// oneVenv makes the RunE of a command about the environment in its argument.
func (a *app) oneVenv(do func(ctx context.Context, c *client.Client, id int) (gateway.VenvInfo, error), show func(gateway.VenvInfo) error) func(*cobra.Command, []string) error {
	return verb(a, func(ctx context.Context, c *client.Client, args []string) (gateway.VenvInfo, error) {
		id, err := strconv.Atoi(args[0])
		if err != nil || id < 1 {
			return gateway.VenvInfo{}, misuse("see them with: locus venv list", "an environment's ID is a number of 1 or more, not %q", clip(args[0]))
		}
		return do(ctx, c, id)
	}, show)
}

func (a *app) venvShow() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show an environment and its pyproject.toml",
		Example: "  locus venv show 1\n  locus venv show 1 --json", Args: exactly(1, "one ID"), ValidArgsFunction: a.completeVenv,
		RunE: a.oneVenv(func(ctx context.Context, c *client.Client, id int) (gateway.VenvInfo, error) { return c.Venv(ctx, id) }, func(v gateway.VenvInfo) error {
			return a.showText([][2]string{
				{"environment", fmt.Sprintf("%d, %s", v.ID, v.Name)}, {"locked", yesNo(v.Locked)},
				{"built on", cmp.Or(strings.Join(v.Built, ", "), "no node yet")}, {"stored", present.Ago(v.CreatedAt, a.now()) + " by " + v.CreatedBy},
				{"digest", v.Digest},
			}, v.Pyproject)
		}),
	}
}

// showText prints facts about a text, then the text.
func (a *app) showText(facts [][2]string, text string) error {
	for _, f := range facts {
		if _, err := fmt.Fprintf(a.out, "%-11s  %s\n", f[0], present.Sanitise(f[1])); err != nil {
			return err
		}
	}
	fmt.Fprintln(a.out)
	for line := range strings.Lines(text) {
		if _, err := fmt.Fprintln(a.out, present.Sanitise(strings.TrimSuffix(line, "\n"))); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) venvBuild() *cobra.Command {
	return &cobra.Command{
		Use: "build ID", Short: "Build an environment now and show the progress",
		Long: `Build an environment on the node now, or wait for a build in progress, and show the
progress. Interrupting this command does not stop a build that others wait for.`,
		Example: "  locus venv build 1", Args: exactly(1, "one ID"), ValidArgsFunction: a.completeVenv,
		RunE: a.oneVenv(a.build, func(v gateway.VenvInfo) error {
			_, err := fmt.Fprintf(a.out, "built %d %s\n", v.ID, present.Sanitise(v.Name))
			return err
		}),
	}
}

// build builds an environment on the node and shows its progress.
func (a *app) build(ctx context.Context, c *client.Client, id int) (gateway.VenvInfo, error) {
	return c.BuildVenv(ctx, id, func(n surfaces.Notice) error {
		if a.json {
			return nil
		}
		_, err := fmt.Fprintf(a.err, "locus: %s\n", present.Sanitise(n.Text))
		return err
	})
}

func (a *app) venvRemove() *cobra.Command {
	return &cobra.Command{
		Use: "rm ID", Aliases: []string{"remove"}, Short: "Remove an environment that nothing uses",
		Long: `Remove an environment. It is refused while a session or a stored function uses the
environment. The ID is never reused.`,
		Example: "  locus venv rm 1", Args: exactly(1, "one ID"), ValidArgsFunction: a.completeVenv,
		RunE: a.oneVenv(func(ctx context.Context, c *client.Client, id int) (gateway.VenvInfo, error) {
			return c.RemoveVenv(ctx, id)
		}, func(v gateway.VenvInfo) error {
			_, err := fmt.Fprintf(a.out, "removed %d %s\n", v.ID, present.Sanitise(v.Name))
			return err
		}),
	}
}

func (a *app) completeVenv(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return completeFrom(a, cmd, args, func(ctx context.Context, c *client.Client) ([]string, error) {
		list, err := c.Venvs(ctx)
		var found []string
		for _, v := range list.Venvs {
			found = append(found, fmt.Sprintf("%d\t%s", v.ID, v.Name))
		}
		return found, err
	})
}
