package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/locusrun/locus/cmd/locus/prompt"
	"github.com/locusrun/locus/node/gateway/client"
	"github.com/locusrun/locus/surfaces"
)

func (a *app) replCommand() *cobra.Command {
	r := &repl{a: a}
	var language string
	cmd := &cobra.Command{
		Use: "repl [flags]", Short: "Open an interactive prompt on a session",
		Long: `Open an interactive prompt on a session: session 0 of the language unless one is named.

A cell may span several lines and runs once it is complete; a Python block is complete
after a blank line. Ctrl-C discards what is typed, or stops the running cell; Ctrl-D
leaves. A question that the code asks with request_clarification is asked at the prompt.

Without a terminal, a script is read from standard input and run cell by cell. It stops at
the first cell that fails, with that cell's exit status.

At the prompt:
` + replHelp,
		Example: "  locus repl\n  locus repl -s notes\n  locus repl -l bash -s build\n  locus repl -s notes < cells.py",
		Args:    exactly(0, "only flags"),
	}
	s := cmd.Flags()
	s.StringVarP(&language, "language", "l", "python", "`LANG`: python, bash, zsh, sh or powershell")
	s.StringVarP(&r.name, "session", "s", "", "session by `NAME`; a new name creates one")
	s.IntVar(&r.id, "session-id", 0, "session by id `N`, 0 or more")
	s.IntVar(&r.venv, "venv", 0, "stored environment `N`, 1 or more; python only")
	s.StringVarP(&r.mode, "mode", "m", string(surfaces.Stateful), "state `MODE` to start in: stateless, stateful or read_only")
	s.Float64VarP(&r.timeout, "timeout", "t", 0, "hard deadline of each cell, in `SECONDS` (default 120)")
	s.BoolVar(&r.keepGoing, "keep-going", false, "in a script, continue after a cell that fails; the exit status is that of the first failure")
	s.BoolVarP(&r.quiet, "quiet", "q", false, "print neither values nor notices")
	a.completeCoordinates(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r.language = surfaces.Language(language)
		if !slices.Contains(surfaces.Languages(), r.language) {
			return misuse("give one of python, bash, zsh, sh and powershell with -l", "there is no language %q", clip(language))
		}
		if !slices.Contains(surfaces.StateModes(), surfaces.StateMode(r.mode)) {
			return misuse("give stateless, stateful or read_only with -m", "there is no state mode %q", clip(r.mode))
		}
		r.named, r.numbered = s.Changed("session"), s.Changed("session-id")
		r.inVenv, r.limited = s.Changed("venv"), s.Changed("timeout")
		return r.run(cmd.Context())
	}
	return cmd
}

// repl is an interactive prompt on one session.
type repl struct {
	a                                *app
	c                                *client.Client
	language                         surfaces.Language
	name, mode                       string
	id, venv                         int
	timeout                          float64
	keepGoing, quiet                 bool
	named, numbered, inVenv, limited bool
	interactive                      bool
}

func (r *repl) run(ctx context.Context) error {
	source, err := r.source()
	if err != nil {
		return err
	}
	c, err := r.a.client(r.a.printer(r.quiet).tellReconnecting)
	if err != nil {
		return err
	}
	defer c.Close()
	r.c = c
	if r.interactive {
		if status, err := c.Status(ctx); err != nil {
			return err
		} else if !r.quiet {
			fmt.Fprintf(r.a.err, "locus %s on node %s; :help tells what the prompt can do\n", r.language, status.Node)
		}
	}
	return r.cells(ctx, source)
}

// source reads cells from the user or from a script.
func (r *repl) source() (prompt.Source, error) {
	if !r.a.typed || !r.a.shown || r.a.json {
		return prompt.NewScript(r.language, r.a.in), nil
	}
	r.interactive = true
	history, err := r.a.historyFile(string(r.language))
	if err != nil {
		return nil, err
	}
	tells, typed, err := reportsCursor(r.a.in.(*os.File), r.a.screen())
	if err != nil {
		return nil, err
	}
	return prompt.NewEditor(r.language, prompt.EditorConfig{
		First: r.firstPrompt, More: func() string { return "... " }, History: history, NoCursor: !tells, Typed: typed,
	})
}

// historyFile is the history file for a language.
func (a *app) historyFile(language string) (string, error) {
	dir := a.getenv("XDG_STATE_HOME")
	if dir == "" {
		home := a.getenv("HOME")
		if home == "" {
			return "", nil
		}
		dir = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(dir, "locus", "history-"+filepath.Base(language)), nil
}

func (r *repl) firstPrompt() string {
	text := string(r.language)
	if r.named {
		text += " " + r.name
	} else if r.numbered {
		text += fmt.Sprintf(" #%d", r.id)
	}
	if r.mode != string(surfaces.Stateful) {
		text += " (" + r.mode + ")"
	}
	return text + "> "
}

// cells runs cells until there are no more.
func (r *repl) cells(ctx context.Context, source prompt.Source) error {
	var first error
	for {
		cell, err := source.Next()
		switch {
		case errors.Is(err, prompt.ErrCancelled):
			continue
		case errors.Is(err, io.EOF):
			return first
		case err != nil:
			return asUsage(err)
		case cell == "":
			continue
		}
		err = r.cell(ctx, cell)
		if errors.Is(err, errQuit) {
			return first
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if r.a.wentWell(err) {
			continue
		}
		if !r.interactive && !r.keepGoing {
			return err
		}
		r.a.showUnlessShown(err)
		if first == nil && !r.interactive {
			first = statusError(r.a.status(err))
		}
	}
}

// cell runs one cell or command of the prompt.
func (r *repl) cell(ctx context.Context, cell string) error {
	if prompt.IsCommand(cell) {
		return r.command(ctx, cell)
	}
	language := string(r.language)
	request := client.Arguments{
		Code: cell, Language: &language, StateMode: &r.mode,
		VenvID: when(r.inVenv, &r.venv), TimeoutS: when(r.limited, &r.timeout), Primitives: &[]surfaces.Offer{},
	}
	if r.mode != string(surfaces.Stateless) {
		request.SessionName = when(r.named, &r.name)
		request.SessionID = when(r.numbered || !r.named, &r.id)
	}
	p := r.a.printer(r.quiet)
	if r.interactive {
		p.asked = r.a.answering(r.c)
	}
	result, err := r.a.steered(ctx, r.c, "", func(ctx context.Context, emit emitter) (surfaces.Result, error) {
		return r.c.Stream(ctx, request, emit)
	}, p)
	if err == nil {
		err = p.result(result)
	}
	if r.interactive {
		err = errors.Join(err, p.endLine())
	}
	return err
}
