package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/locusrun/locus/node/gateway/client"
)

// app is one run of the command: its streams and the global flags. Tests replace the
// streams.
type app struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
	now      func() time.Time
	// interrupts delivers Ctrl-C until stop is called.
	interrupts func() (c <-chan os.Signal, stop func())
	// readLine reads the next line that the user types. It ends with its context.
	readLine func(context.Context) (string, error)
	// dropInput discards pending input of the terminal.
	dropInput func() error
	// unread reports that nobody reads the output any more; nil if that cannot be known.
	unread func() bool
	// typed says that the input is a terminal, shown that the output is one.
	typed, shown bool

	hints client.Hints
	json  bool
}

func newApp(in, out, errs *os.File) *app {
	return &app{
		in: in, out: out, err: errs, getenv: os.Getenv, now: time.Now, readLine: lineReader(in), dropInput: func() error { return dropInput(in) },
		unread: func() bool { return isUnread(out) },
		typed:  term.IsTerminal(int(in.Fd())), shown: term.IsTerminal(int(out.Fd())),
		interrupts: func() (<-chan os.Signal, func()) {
			c := make(chan os.Signal, 2)
			signal.Notify(c, os.Interrupt)
			return c, func() { signal.Stop(c) }
		},
	}
}

// run executes the arguments and returns the exit status.
func (a *app) run(ctx context.Context, args []string) int {
	a.out = output{a.out}
	root := a.root()
	root.SetArgs(args)
	if len(args) > 0 && args[0] == cobra.ShellCompRequestCmd {
		plainUsages(root)
	}
	var said bytes.Buffer // cobra's output: cobra would ignore write errors
	root.SetOut(&said)
	var unknown error
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, given []string) {
		// Help for an unknown command would look as if it existed.
		if rest := cmd.Flags().Args(); cmd.HasSubCommands() && len(rest) > 0 {
			unknown = unknownVerb(cmd, rest[0])
			return
		}
		help(cmd, given)
	})
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = unknown
	}
	if _, unwritten := said.WriteTo(a.out); err == nil {
		err = unwritten
	}
	var usage *usageError
	if errors.As(err, &usage) {
		// pflag has not parsed the flags after the invalid one.
		a.json = a.json || asksForJSON(args)
	}
	return a.finish(err)
}

func asksForJSON(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	return slices.Contains(args, "--json")
}

// client finds the node and makes a client for it.
func (a *app) client(options ...func(*client.Config)) (*client.Client, error) {
	target, err := a.target()
	if err != nil {
		return nil, err
	}
	cfg := client.Config{Server: target.Server, Token: target.Token, Agent: "locus/" + version()}
	for _, o := range options {
		o(&cfg)
	}
	c, err := client.New(cfg)
	if err != nil {
		return nil, asUsage(err)
	}
	return c, nil
}

func (a *app) target() (client.Target, error) {
	hints := a.hints
	hints.Getenv = a.getenv
	target, err := client.Discover(hints)
	return target, asUsage(err)
}

// printJSON prints one object: on one line for programs, indented for a terminal.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	if a.shown {
		enc.SetIndent("", "  ")
	}
	return enc.Encode(v)
}

// verb makes the RunE of a command that needs a client. It prints the answer as JSON with
// --json, and with show otherwise.
func verb[T any](a *app, call func(context.Context, *client.Client, []string) (T, error), show func(T) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		defer c.Close()
		return answered(a, func() (T, error) { return call(cmd.Context(), c, args) }, show)
	}
}

// answered prints the result of call as JSON with --json, and with show otherwise.
func answered[T any](a *app, call func() (T, error), show func(T) error) error {
	answer, err := call()
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(answer)
	}
	return show(answer)
}
