package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/locusrun/locus/cmd/locus/present"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/gateway/client"
	"github.com/locusrun/locus/surfaces"
)

func (a *app) sessionsCommand() *cobra.Command {
	list := a.sessionsList()
	cmd := &cobra.Command{
		Use:     "sessions",
		Short:   "List, inspect, close, reset and fork sessions",
		Example: "  locus sessions\n  locus sessions inspect notes --detail names\n  locus sessions fork notes what-if",
		Args:    cobra.ArbitraryArgs,
		RunE:    listByDefault(list),
	}
	cmd.AddCommand(list, a.sessionsInspect(), a.sessionsClose(), a.sessionsReset(), a.sessionsFork())
	return cmd
}

func (a *app) sessionsList() *cobra.Command {
	call := func(ctx context.Context, c *client.Client, _ []string) (gateway.SessionList, error) {
		return c.ListSessions(ctx)
	}
	show := func(list gateway.SessionList) error {
		if len(list.Sessions) == 0 {
			_, err := fmt.Fprintf(a.out, "no sessions (at most %d)\n", list.Limit)
			return err
		}
		var rows [][]string
		for _, s := range list.Sessions {
			rows = append(rows, []string{
				string(s.Language), strconv.Itoa(s.SessionID), present.Optional(s.SessionName), present.Optional(s.VenvID), s.State, s.Node, strconv.FormatUint(s.Epoch, 10),
				strconv.FormatInt(s.Calls, 10), present.Bytes(s.MemoryBytes), present.Ago(s.LastUsedAt, a.now()), present.Clip(s.Summary, 60),
			})
		}
		return present.Table(a.out, []string{"LANGUAGE", "ID", "NAME", "VENV", "STATE", "NODE", "EPOCH", "CALLS", "MEMORY", "USED", "SUMMARY"}, rows)
	}
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List your sessions",
		Example: "  locus sessions list\n  locus sessions list --json",
		Args:    exactly(0, "no arguments"), RunE: verb(a, call, show),
	}
}

// sessionFlags holds the flags that select a session.
type sessionFlags struct {
	language string
	name     string
	id, venv int
}

func (s *sessionFlags) define(a *app, cmd *cobra.Command) {
	cmd.Flags().StringVarP(&s.language, "language", "l", "", "language `LANG` of the session; with --session-id")
	cmd.Flags().StringVarP(&s.name, "session", "s", "", "session by `NAME`, instead of the argument")
	a.completeSessionFlag(cmd)
	cmd.Flags().IntVar(&s.id, "session-id", 0, "session by id `N`, 0 or more, instead of NAME")
	cmd.Flags().IntVar(&s.venv, "venv", 0, "environment `N` of the session, 1 or more; with --session-id")
	a.completeFlag(cmd, "language", languageNames)
	cmd.ValidArgsFunction = a.completeSession
}

// selector makes a selector from the flags and a NAME, if given.
func (s *sessionFlags) selector(cmd *cobra.Command, args []string) client.Selector {
	given := cmd.Flags().Changed
	sel := client.Selector{
		SessionID: when(given("session-id"), &s.id), Language: when(given("language"), &s.language), VenvID: when(given("venv"), &s.venv),
	}
	sel.SessionName = when(given("session"), &s.name)
	if len(args) > 0 {
		sel.SessionName = &args[0]
	}
	return sel
}

// oneSession checks that a session is selected in exactly one way.
func oneSession(required bool) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		named := cmd.Flags().Changed("session")
		byID := cmd.Flags().Changed("session-id")
		const ways = "give its NAME, or --session-id N with -l LANG"
		switch {
		case named && len(args) > 0:
			return misuse(ways, "%q was given two names", cmd.CommandPath())
		case len(args) > 1:
			return misuse("quote a NAME that holds spaces", "%q takes one session, got %d arguments", cmd.CommandPath(), len(args))
		case required && len(args) == 0 && !named && !byID:
			return misuse(ways, "%q was not given a session", cmd.CommandPath())
		}
		return nil
	}
}

func (a *app) sessionsInspect() *cobra.Command {
	var s sessionFlags
	var detail string
	cmd := &cobra.Command{
		Use: "inspect [flags] [NAME]", Short: "Show what is in a session",
		Long: `Show what is in a session: variables, functions and modules; for a shell its working
directory, variables, functions and aliases. Without a NAME: Python session 0.`,
		Example: "  locus sessions inspect notes\n  locus sessions inspect notes --detail full\n  locus sessions inspect --session-id 0 -l bash --json",
		Args:    oneSession(false),
	}
	s.define(a, cmd)
	cmd.Flags().StringVar(&detail, "detail", "", "how much to show: summary, names or full (default summary)")
	a.completeFlag(cmd, "detail", []string{"summary", "names", "full"})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return verb(a, func(ctx context.Context, c *client.Client, args []string) (gateway.Inspection, error) {
			return c.InspectState(ctx, s.selector(cmd, args), detail)
		}, a.showInspection)(cmd, args)
	}
	return cmd
}

// showInspection prints the session on one line, then its state.
func (a *app) showInspection(in gateway.Inspection) error {
	s := in.Session
	if _, err := fmt.Fprintf(a.out, "%s session %d (%s): %s, %s, %s, used %s\n", s.Language, s.SessionID, present.Sanitise(present.Optional(s.SessionName)),
		s.State, present.Bytes(s.MemoryBytes), surfaces.Count(s.Calls, "call", "calls"), present.Ago(s.LastUsedAt, a.now())); err != nil {
		return err
	}
	return present.State(a.out, json.RawMessage(in.State))
}

func (a *app) sessionsClose() *cobra.Command {
	return a.sessionVerb("close [flags] NAME", "Close a session; closing one that does not exist is not an error",
		"  locus sessions close notes\n  locus sessions close --session-id 2 -l bash",
		func(ctx context.Context, c *client.Client, sel client.Selector) (any, string, error) {
			closed, err := c.CloseSession(ctx, sel)
			if closed.Closed {
				return closed, "closed", err
			}
			return closed, "there was none: " + closed.Reason, err
		})
}

func (a *app) sessionsReset() *cobra.Command {
	return a.sessionVerb("reset [flags] NAME", "Empty a session and keep its name",
		"  locus sessions reset notes\n  locus sessions reset --session-id 0 -l python",
		func(ctx context.Context, c *client.Client, sel client.Selector) (any, string, error) {
			info, err := c.ResetSession(ctx, sel)
			return info, fmt.Sprintf("reset; epoch %d", info.Epoch), err
		})
}

// sessionVerb makes a command that changes one session and prints one line.
func (a *app) sessionVerb(use, short, example string, do func(context.Context, *client.Client, client.Selector) (any, string, error)) *cobra.Command {
	var s sessionFlags
	cmd := &cobra.Command{Use: use, Short: short, Example: example, Args: oneSession(true)}
	s.define(a, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		defer c.Close()
		answer, line, err := do(cmd.Context(), c, s.selector(cmd, args))
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(answer)
		}
		_, err = fmt.Fprintln(a.out, line)
		return err
	}
	return cmd
}

func (a *app) sessionsFork() *cobra.Command {
	var s sessionFlags
	cmd := &cobra.Command{
		Use: "fork [flags] [NAME] NEW-NAME", Short: "Create a second live session as a copy of one",
		Example: "  locus sessions fork notes what-if\n  locus sessions fork --session-id 0 -l python what-if",
	}
	s.define(a, cmd)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		flagged := cmd.Flags().Changed("session-id") || cmd.Flags().Changed("session")
		if flagged && len(args) == 1 || !flagged && len(args) == 2 {
			return nil
		}
		return misuse("use: locus sessions fork NAME NEW-NAME, or --session-id N -l LANG NEW-NAME", "%q takes a session and a new name, got %s", cmd.CommandPath(), surfaces.Count(len(args), "argument", "arguments"))
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		last := len(args) - 1
		return verb(a, func(ctx context.Context, c *client.Client, args []string) (gateway.SessionInfo, error) {
			return c.ForkSession(ctx, s.selector(cmd, args[:last]), args[last])
		}, func(info gateway.SessionInfo) error {
			for _, n := range info.Notice {
				fmt.Fprintf(a.err, "locus: %s: %s\n", n.Kind, n.Text)
			}
			_, err := fmt.Fprintf(a.out, "%s session %d (%s)\n", info.Language, info.SessionID, present.Sanitise(present.Optional(info.SessionName)))
			return err
		})(cmd, args)
	}
	return cmd
}
