package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/locusrun/locus/cmd/locus/present"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/gateway/client"
	"github.com/locusrun/locus/surfaces"
)

func (a *app) callsCommand() *cobra.Command {
	list := a.callsList()
	cmd := &cobra.Command{
		Use:     "calls",
		Short:   "List, show and steer calls",
		Example: "  locus calls\n  locus calls show --follow CALL\n  locus calls stop CALL",
		Args:    cobra.ArbitraryArgs,
		RunE:    listByDefault(list),
	}
	cmd.AddCommand(list, a.callsShow(),
		a.steer(&cobra.Command{Use: "pause CALL", Short: "Freeze a running call and its child calls", Example: "  locus calls pause CALL"},
			"paused", (*client.Client).Pause),
		a.steer(&cobra.Command{Use: "resume CALL", Short: "Continue a paused call", Example: "  locus calls resume CALL"},
			"resumed", (*client.Client).Resume),
		a.steer(&cobra.Command{Use: "stop CALL", Short: "Interrupt a call, and kill what is left of it one second later", Example: "  locus calls stop CALL"},
			"stopping", (*client.Client).Stop),
		a.callsInterject(),
		a.callsAsk(), a.callsAnswer(),
	)
	return cmd
}

func (a *app) callsList() *cobra.Command {
	var q gateway.ExecutionQuery
	var status string
	call := func(ctx context.Context, c *client.Client, _ []string) (gateway.ExecutionList, error) {
		q.Status = surfaces.Status(status)
		return c.Executions(ctx, q)
	}
	show := func(calls gateway.ExecutionList) error {
		if len(calls.Executions) == 0 {
			_, err := fmt.Fprintln(a.out, "no calls")
			return err
		}
		var rows [][]string
		for _, s := range calls.Executions {
			rows = append(rows, []string{
				s.CallID, callState(s), string(s.Language), string(s.StateMode), callSession(s),
				present.Ago(s.StartedAt, a.now()), present.Millis(s.DurationMS), present.Clip(s.Thought, 50),
			})
		}
		return present.Table(a.out, []string{"CALL", "STATUS", "LANGUAGE", "MODE", "SESSION", "STARTED", "TOOK", "THOUGHT"}, rows)
	}
	cmd := &cobra.Command{
		Use: "list [flags]", Aliases: []string{"ls"}, Short: "List your recent calls, newest first",
		Example: "  locus calls list -n 20\n  locus calls list -n 20 --before CALL\n  locus calls list --status failed --json",
		Args:    exactly(0, "no arguments"),
	}
	s := cmd.Flags()
	s.IntVarP(&q.Limit, "limit", "n", 0, "list at most `N` calls (default: all that are kept)")
	s.StringVar(&status, "status", "", "list only calls with `STATUS` running, done, failed or refused")
	s.StringVar(&q.Before, "before", "", "list only calls that began before `CALL`")
	a.completeFlag(cmd, "status", names(surfaces.Statuses()))
	completeFlagAs(cmd, "before", a.completeCall)
	list := verb(a, call, show)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if q.Limit < 0 || cmd.Flags().Changed("limit") && q.Limit == 0 {
			return misuse("give a number of calls, 1 or more", "--limit cannot be %d", q.Limit)
		}
		return list(cmd, args)
	}
	return cmd
}

func callState(s gateway.CallSummary) string {
	switch {
	case s.Paused:
		return "paused"
	case s.Code != nil:
		return string(*s.Code)
	}
	return string(s.Status)
}

func callSession(s gateway.CallSummary) string {
	if s.SessionName != nil {
		return *s.SessionName
	}
	return present.Optional(s.SessionID)
}

func (a *app) callsShow() *cobra.Command {
	var follow, quiet bool
	var from int64
	var saving saveFlags
	cmd := &cobra.Command{
		Use: "show [flags] CALL", Short: "Show the output and status of a call",
		Long: `Show the output and status of a call.

With --follow, stream its output from byte --from until the call ends. Ctrl-C then stops
the call; a second Ctrl-C detaches from it. With --out, save the files that came back from
a linked machine.`,
		Example: "  locus calls show CALL\n  locus calls show --follow CALL\n  locus calls show --follow --from 4096 CALL\n  locus calls show --out results CALL",
		Args:    exactly(1, "one CALL"), ValidArgsFunction: a.completeCall,
	}
	cmd.Flags().BoolVar(&follow, "follow", false, "stream the output until the call ends")
	cmd.Flags().Int64Var(&from, "from", 0, "with --follow, start at byte `BYTE` of the output")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print neither the value of the last expression nor notices")
	saving.define(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("from") && !follow {
			return misuse("add --follow", "--from needs --follow")
		}
		if from < 0 {
			return misuse("give a byte of 0 or more", "--from cannot be %d", from)
		}
		if err := saving.check(cmd); err != nil {
			return err
		}
		p := a.printer(quiet)
		p.callID, p.saving = args[0], saving
		if follow {
			return a.followCall(cmd.Context(), p, from)
		}
		return a.showCall(cmd.Context(), p)
	}
	return cmd
}

func (a *app) followCall(ctx context.Context, p *printer, from int64) error {
	c, err := a.client(p.tellReconnecting)
	if err != nil {
		return err
	}
	defer c.Close()
	result, err := a.steered(ctx, c, p.callID, func(ctx context.Context, emit emitter) (surfaces.Result, error) {
		return c.Follow(ctx, p.callID, from, emit)
	}, p)
	if err != nil {
		return err
	}
	return p.result(result)
}

// showCall returns the call's own exit status, or 0 while it runs.
func (a *app) showCall(ctx context.Context, p *printer) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	result, err := c.Execution(ctx, p.callID)
	if err != nil {
		return err
	}
	if !a.json && !p.quiet && (result.Status == surfaces.StatusRunning || result.Usage != nil && result.Usage.Primitives > 0) {
		if err := p.primitives(ctx, c); err != nil {
			return err
		}
	}
	if result.Status != surfaces.StatusRunning {
		return p.result(result)
	}
	if a.json {
		return a.printJSON(result)
	}
	if _, err := io.WriteString(a.out, result.Stdout); err != nil {
		return err
	}
	if _, err := io.WriteString(a.err, result.Stderr); err != nil {
		return err
	}
	for _, n := range result.Notice {
		if id, question, ok := strings.Cut(n.Text, ": "); ok && n.Kind == client.EventClarification {
			p.question(id, question)
		}
	}
	p.note("still running")
	return nil
}

// primitives shows the primitives that a call's code has used.
func (p *printer) primitives(ctx context.Context, c *client.Client) error {
	used, err := c.Primitives(ctx, p.callID)
	if err != nil {
		return err
	}
	const most = 20
	for i, u := range used.Primitives {
		if i == most {
			p.note("and %d primitives more", len(used.Primitives)-most)
			break
		}
		replayed := ""
		if u.Replayed {
			replayed = ", replayed"
		}
		p.note("primitive %d %s: %s, %s%s", u.Seq, present.Sanitise(u.Name), present.Sanitise(u.Outcome), present.Millis(u.MS), replayed)
	}
	return nil
}

// steer completes a command that does one thing to a running call and prints a word.
func (a *app) steer(cmd *cobra.Command, done string, do func(*client.Client, context.Context, string) (json.RawMessage, error)) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = exactly(1, "one CALL"), a.completeRunning
	cmd.RunE = verb(a, func(ctx context.Context, c *client.Client, args []string) (json.RawMessage, error) {
		return do(c, ctx, args[0])
	}, a.says(done))
	return cmd
}

// says prints a word in place of the node's answer.
func (a *app) says(word string) func(json.RawMessage) error {
	return func(json.RawMessage) error {
		_, err := fmt.Fprintln(a.out, word)
		return err
	}
}

func (a *app) callsInterject() *cobra.Command {
	call := func(ctx context.Context, c *client.Client, args []string) (json.RawMessage, error) {
		return c.Interject(ctx, args[0], args[1])
	}
	return &cobra.Command{
		Use: "interject CALL TEXT", Short: "Send a message to the running code", Example: "  locus calls interject CALL 'use the smaller file'",
		Args: exactly(2, "a CALL and one quoted TEXT"), ValidArgsFunction: a.completeRunning,
		RunE: verb(a, call, a.says("sent")),
	}
}

func (a *app) callsAsk() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "ask [flags] CALL [CODE]", Short: "Run a read-only program against a snapshot of a busy session",
		Long: `Run a read-only program against a snapshot of a busy session. The stack of the running
code and its output so far are shown on standard error; without a program, only these are
shown. The exit status is that of the program.

A shell cannot be copied while it runs a command: its running commands and its output are
shown, and a program is refused.`,
		Example:           "  locus calls ask CALL\n  locus calls ask CALL 'len(rows)'\n  locus calls ask CALL -f look.py --json",
		ValidArgsFunction: a.completeRunning,
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "read the program from `FILE`; - is standard input")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		want := 2
		if cmd.Flags().Changed("file") {
			want = 1
		}
		return exactly(want, "a CALL and a program: one quoted CODE or -f FILE")(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 2:
			return a.ask(cmd.Context(), args[0], args[1])
		case file == "":
			return a.ask(cmd.Context(), args[0], "")
		}
		code, err := a.readText("-f", file, surfaces.MaxCode)
		if err != nil {
			return err
		}
		return a.ask(cmd.Context(), args[0], code)
	}
	return cmd
}

// ask returns the exit status of the question's program, like exec.
func (a *app) ask(ctx context.Context, callID, code string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	answer, err := c.Ask(ctx, callID, code)
	if err != nil {
		return err
	}
	var told struct {
		Result         *surfaces.Result // nil without a program
		Stack          string
		Stdout, Stderr string
	}
	if err := json.Unmarshal(answer, &told); err != nil {
		return fmt.Errorf("the answer of call %s cannot be decoded: %w", callID, err)
	}
	p := a.printer(false)
	p.passage("the running code is at", told.Stack)
	p.passage("it has printed", told.Stdout)
	p.passage("it has printed on standard error", told.Stderr)
	switch {
	case a.json:
		if err := a.printJSON(answer); err != nil || told.Result == nil {
			return err
		}
		return &exitError{*told.Result}
	case told.Result == nil:
		return nil
	}
	return p.result(*told.Result)
}

func (a *app) callsAnswer() *cobra.Command {
	var id string
	cmd := &cobra.Command{
		Use: "answer [flags] CALL TEXT", Short: "Answer a question that the running code asked",
		Example: "  locus calls answer CALL 'the second one'\n  locus calls answer --id 3 CALL yes",
		Args:    exactly(2, "a CALL and one quoted TEXT"), ValidArgsFunction: a.completeRunning,
	}
	cmd.Flags().StringVar(&id, "id", "", "`ID` of the question (default: the open one)")
	cmd.RunE = verb(a, func(ctx context.Context, c *client.Client, args []string) (json.RawMessage, error) {
		return c.Answer(ctx, args[0], id, args[1])
	}, a.says("answered"))
	return cmd
}
