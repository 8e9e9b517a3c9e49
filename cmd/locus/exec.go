package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/locusrun/locus/cmd/locus/present"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/gateway/client"
	"github.com/locusrun/locus/surfaces"
)

func (a *app) execCommand() *cobra.Command {
	f := &execFlags{}
	cmd := &cobra.Command{
		Use:   "exec [flags] [CODE | -f FILE | -]",
		Short: "Run a program and stream its output",
		Long: `Run a program and stream its output.

The program is CODE, the text of FILE, or with "-" the text on standard input. The value
of a trailing expression is printed as at a prompt. Errors go to standard error, with
advice on what to change.

If the code asks a question with request_clarification, it is asked at the terminal.

Ctrl-C stops the call and shows how it ended; a second Ctrl-C detaches from it.

Exit status:
  0  the program ended; a shell's non-zero status is reported, but is not a failure
  1  the program raised an exception, or was killed or stopped
  2  the call was refused, or the command was misused
  3  nothing ran: no node, no capacity, or the environment cannot be built
  4  timeout
  5  the outcome is lost or unknown`,
		Example: `  locus exec '6 * 7'
  locus exec -l bash 'ls | wc -l'
  locus exec -m stateful -s notes -f load.py
  locus exec -m read_only -s notes 'df.describe()'
  locus exec -t 5 --atomic -m stateful -s notes 'risky()'
  echo 'print(input())' | locus exec - --json
  locus exec --background -f nightly.py
  locus exec --surface user_machine -F rows.csv --out . -f plot.py`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			request, err := f.arguments(a, cmd, args)
			if err != nil {
				return err
			}
			return a.exec(cmd.Context(), request, f.saving, f.quiet)
		},
	}
	f.define(cmd)
	a.completeCoordinates(cmd)
	return cmd
}

func (a *app) exec(ctx context.Context, request client.Arguments, saving saveFlags, quiet bool) error {
	p := a.printer(quiet)
	p.saving = saving
	c, err := a.client(p.tellReconnecting)
	if err != nil {
		return err
	}
	defer c.Close()
	if request.Background != nil && *request.Background {
		return a.execBackground(ctx, c, request, p)
	}
	p.asked = a.answering(c)
	result, err := a.steered(ctx, c, "", func(ctx context.Context, emit emitter) (surfaces.Result, error) {
		return c.Stream(ctx, request, emit)
	}, p)
	if err != nil {
		return err
	}
	err = p.result(result)
	if info, missing := os.Stat(request.Code); missing == nil && info.Mode().IsRegular() && !endedWell(result) {
		p.note("CODE is the name of a file here; what is in it is run with: -f %s", present.Sanitise(request.Code))
	}
	return err
}

// endedWell reports that a program ran to its end with status 0.
func endedWell(r surfaces.Result) bool {
	return r.Code == nil && (r.Exit == nil || r.Exit.Code == nil || *r.Exit.Code == 0)
}

func (a *app) execBackground(ctx context.Context, c *client.Client, request client.Arguments, p *printer) error {
	result, err := c.Execute(ctx, request)
	if err != nil {
		return err
	}
	if a.json || result.Status != surfaces.StatusRunning {
		return p.result(result)
	}
	if _, err := fmt.Fprintln(a.out, result.CallID); err != nil {
		return err
	}
	p.note("follow it with: locus calls show --follow %s", result.CallID)
	return nil
}

// emitter handles the events of a call.
type emitter = func(gateway.StreamEvent) error
