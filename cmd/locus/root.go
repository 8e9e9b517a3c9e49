package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/locusrun/locus/surfaces"
)

// root makes the tree of commands.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "locus",
		Short: "Run an agent's code in sessions that can be kept, copied and recovered",
		Long: `Locus runs an agent's code. Each call chooses a language, a state mode, a session, an
environment and a surface independently of one another.

Start a node with "locus up". Every other command on the same machine then finds it
without configuration.

Exit status:
  0  success
  1  the code failed
  2  the call was refused, or the command was misused
  3  unavailable: no node, no capacity, or the environment cannot be built
  4  timeout
  5  the outcome is lost or unknown`,
		Example: `  locus up
  locus exec '6 * 7'
  locus exec -m stateful -s notes 'x = 41'
  locus exec -m read_only -s notes 'x + 1'
  locus repl -l bash -s build`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE:          a.needsVerb,
		Version:       version(),
	}
	root.SetVersionTemplate(versionLine())
	root.SetErr(a.err)
	root.SetIn(a.in)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(flagError)
	root.SetGlobalNormalizationFunc(flagName)
	p := root.PersistentFlags()
	p.StringVar(&a.hints.Server, "server", "", "`URL` or HOST:PORT of the node (default: $LOCUS_SERVER, else the node of the data directory, else http://127.0.0.1:7070)")
	p.StringVar(&a.hints.Token, "token", "", "bearer `TOKEN` of the actor (default: $LOCUS_TOKEN, else default.token in the data directory)")
	p.StringVar(&a.hints.Data, "data", "", "data directory `DIR` of a node on this machine (default: $LOCUS_DATA, else ~/.local/share/locus)")
	p.BoolVar(&a.json, "json", false, "print the answer as one JSON object")
	root.AddCommand(
		a.execCommand(), a.replCommand(), a.sessionsCommand(), a.callsCommand(),
		a.venvCommand(), a.fnCommand(), a.primitivesCommand(),
		a.tokenCommand(), a.linkCommand(), a.machinesCommand(), a.nodesCommand(), a.authorityCommand(), a.statusCommand(), a.topCommand(), a.auditCommand(), a.doctorCommand(), a.mcpCommand(),
		a.versionCommand(), a.completionCommand(),
	)
	root.AddCommand(a.nodeCommands()...)
	root.InitDefaultHelpCmd()
	walk(root, func(c *cobra.Command) {
		c.SuggestionsMinimumDistance = 2
		c.DisableFlagsInUseLine = true
		if c.Name() == "help" {
			c.Run, c.RunE = nil, helpOn
		}
	})
	return root
}

// helpOn prints the help of a command; for an unknown command it is a usage error.
func helpOn(help *cobra.Command, args []string) error {
	on, rest, err := help.Root().Find(args)
	if err != nil || len(rest) > 0 {
		return unknownVerb(on, rest[0])
	}
	on.InitDefaultHelpFlag()
	return on.Help()
}

func walk(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		walk(sub, f)
	}
}

// needsVerb is the RunE of a command that only has subcommands: alone it prints its help,
// with an argument it is a usage error.
func (a *app) needsVerb(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) > 0:
		return unknownVerb(cmd, args[0])
	case a.json:
		return misuse(fmt.Sprintf("%q lists the commands", cmd.CommandPath()+" --help"), "%q needs a command to have an answer for --json", cmd.CommandPath())
	}
	return cmd.Help()
}

// listByDefault is the RunE of a command that lists when no subcommand is given.
func listByDefault(list *cobra.Command) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownVerb(cmd, args[0])
		}
		return list.RunE(cmd, args)
	}
}

func unknownVerb(cmd *cobra.Command, verb string) error {
	e := &usageError{Message: fmt.Sprintf("%q is not a command of %q", verb, cmd.CommandPath())}
	if near := cmd.SuggestionsFor(verb); len(near) > 0 {
		e.Suggestion = fmt.Sprintf("did you mean %q?", cmd.CommandPath()+" "+near[0])
	} else {
		e.Suggestion = fmt.Sprintf("%q lists the commands", cmd.CommandPath()+" --help")
	}
	return e
}

// exactly requires n arguments, which it names in the error.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		return &usageError{
			Message:    fmt.Sprintf("%q takes %s, got %s", cmd.CommandPath(), what, surfaces.Count(len(args), "argument", "arguments")),
			Suggestion: "use: " + strings.TrimSuffix(cmd.UseLine(), " [flags]"),
		}
	}
}

// flagOfArgument has the flags whose names differ from the tool's arguments.
var flagOfArgument = map[string]string{
	"state_mode": "mode", "session_name": "session", "venv_id": "venv", "timeout_s": "timeout",
}

// flagName accepts the names of the tool's arguments as flags.
func flagName(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	snake := strings.ReplaceAll(name, "-", "_")
	if flag, ok := flagOfArgument[snake]; ok {
		return pflag.NormalizedName(flag)
	}
	return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
}

// argumentFlag returns the flag for an argument of the tool.
func argumentFlag(argument string) string {
	if argument == "code" {
		return "CODE"
	}
	return "--" + string(flagName(nil, argument))
}
