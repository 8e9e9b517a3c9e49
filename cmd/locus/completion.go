package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/locusrun/locus/node/gateway/client"
	"github.com/locusrun/locus/surfaces"
)

// completeWithin bounds how long a completion may ask the node.
const completeWithin = 2 * time.Second

func (a *app) completionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "completion bash|zsh|fish|powershell", Short: "Print a completion script for a shell",
		Example:   "  source <(locus completion bash)\n  locus completion zsh > ~/.zfunc/_locus\n  locus completion fish | source",
		Args:      exactly(1, "the name of one shell"),
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		root := cmd.Root()
		switch args[0] {
		case "bash":
			return root.GenBashCompletionV2(a.out, true)
		case "zsh":
			return root.GenZshCompletion(a.out)
		case "fish":
			return root.GenFishCompletion(a.out, true)
		case "powershell", "pwsh":
			return root.GenPowerShellCompletionWithDesc(a.out)
		}
		return misuse("give bash, zsh, fish or powershell", "there is no completion for %q", args[0])
	}
	return cmd
}

var languageNames = names(surfaces.Languages())

func names[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}

// completeFlag offers fixed values. The flag is known to exist, so that
// registering cannot fail but by a fault in this program.
func (a *app) completeFlag(cmd *cobra.Command, flag string, values []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err)
	}
}

// completeFlagAs completes what is given as a flag like an argument.
func completeFlagAs(cmd *cobra.Command, flag string, complete cobra.CompletionFunc) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return complete(cmd, nil, typed)
	})
	if err != nil {
		panic(err)
	}
}

// completeSessionFlag completes a session's name where it is given as a flag.
func (a *app) completeSessionFlag(cmd *cobra.Command) {
	completeFlagAs(cmd, "session", a.completeSession)
}

// completeCoordinates completes the flags that say where code runs.
func (a *app) completeCoordinates(cmd *cobra.Command) {
	for flag, values := range map[string][]string{
		"language": languageNames, "mode": names(surfaces.StateModes()), "surface": names(surfaces.Places()), "on-loss": names(surfaces.OnLosses()),
	} {
		if cmd.Flags().Lookup(flag) != nil {
			a.completeFlag(cmd, flag, values)
		}
	}
	if cmd.Flags().Lookup("venv") != nil {
		completeFlagAs(cmd, "venv", a.completeVenv)
	}
	a.completeSessionFlag(cmd)
}

// completeFrom offers what a node tells, for the first argument only; nothing when
// no node answers, as completion has no place for errors.
func completeFrom(a *app, cmd *cobra.Command, args []string, ask func(context.Context, *client.Client) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c, err := a.client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
	defer cancel()
	found, err := ask(ctx, c)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) completeSession(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return completeFrom(a, cmd, args, func(ctx context.Context, c *client.Client) ([]string, error) {
		list, err := c.ListSessions(ctx)
		var found []string
		for _, s := range list.Sessions {
			if s.SessionName != nil {
				found = append(found, *s.SessionName+"\t"+string(s.Language)+", "+s.State)
			}
		}
		return found, err
	})
}

func (a *app) completeCall(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return completeFrom(a, cmd, args, func(ctx context.Context, c *client.Client) ([]string, error) {
		calls, err := c.Executions(ctx)
		var found []string
		for _, s := range calls.Executions {
			found = append(found, s.CallID+"\t"+string(s.Language)+", "+callState(s))
		}
		return found, err
	})
}
