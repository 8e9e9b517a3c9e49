package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/gateway/client"
	"github.com/locusrun/locus/surfaces"
)

// completeWithin bounds the question of a completion to the node.
const completeWithin = 2 * time.Second

func (a *app) completionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "completion bash|zsh|fish|powershell", Short: "Print a shell completion script",
		Long: `Print a shell completion script. It completes commands, flags, and objects of the node
such as sessions and calls.`,
		Example:   "  source <(locus completion bash)\n  locus completion zsh > ~/.zfunc/_locus\n  locus completion fish | source",
		Args:      exactly(1, "the name of one shell"),
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		root := cmd.Root()
		switch args[0] {
		case "bash":
			_, unwritten := io.WriteString(a.out, bashAlone)
			return errors.Join(root.GenBashCompletionV2(a.out, true), unwritten)
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

// bashAlone replaces the function of the package bash-completion if that is not installed.
// The words are then split as bash splits them.
const bashAlone = `if ! declare -F _init_completion >/dev/null && ! declare -F _get_comp_words_by_ref >/dev/null; then
    _init_completion()
    {
        words=("${COMP_WORDS[@]}")
        cword=$COMP_CWORD
        cur=${words[cword]}
        prev=${words[cword-1]}
    }
fi
`

// plainUsages removes the markup from the flags' descriptions that is only for help:
// completion would show it.
func plainUsages(root *cobra.Command) {
	walk(root, func(c *cobra.Command) {
		plain := func(f *pflag.Flag) { _, f.Usage = pflag.UnquoteUsage(f) }
		c.PersistentFlags().VisitAll(plain)
		c.Flags().VisitAll(plain)
	})
}

var languageNames = names(surfaces.Languages())

func names[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}

// completeFlag offers fixed values for a flag. It panics if there is no such flag.
func (a *app) completeFlag(cmd *cobra.Command, flag string, values []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err)
	}
}

// completeFlagAs completes a flag's value like an argument.
func completeFlagAs(cmd *cobra.Command, flag string, complete cobra.CompletionFunc) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return complete(cmd, nil, typed)
	})
	if err != nil {
		panic(err)
	}
}

// completeSessionFlag completes the name of a session in a flag.
func (a *app) completeSessionFlag(cmd *cobra.Command) {
	completeFlagAs(cmd, "session", a.completeSession)
}

// completeCoordinates completes the flags for where code runs.
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

// completeFrom offers values from the node for the first argument. If no node answers it
// offers none, as completion cannot show errors.
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

// completeCall offers all calls that the node keeps.
func (a *app) completeCall(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return completeCalls(a, cmd, args, "")
}

// completeRunning offers the running calls.
func (a *app) completeRunning(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return completeCalls(a, cmd, args, surfaces.StatusRunning)
}

// completeCalls offers calls, newest first, because their ids do not sort usefully.
func completeCalls(a *app, cmd *cobra.Command, args []string, status surfaces.Status) ([]string, cobra.ShellCompDirective) {
	found, how := completeFrom(a, cmd, args, func(ctx context.Context, c *client.Client) ([]string, error) {
		calls, err := c.Executions(ctx, gateway.ExecutionQuery{Status: status})
		var found []string
		for _, s := range calls.Executions {
			found = append(found, s.CallID+"\t"+string(s.Language)+", "+callState(s))
		}
		return found, err
	})
	return found, how | cobra.ShellCompDirectiveKeepOrder
}
