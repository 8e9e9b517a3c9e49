package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/locusrun/locus/node/gateway/client"
	"github.com/locusrun/locus/surfaces"
)

const replHelp = `  :state [summary|names|full]  show what is in the session
  :mode [MODE]                 show or change the state mode: stateless, stateful, read_only
  :reset                       empty the session
  :help                        show this list
  :quit                        leave, as Ctrl-D does`

// replWords are the commands of the prompt.
var replWords = []string{"help", "mode", "quit", "reset", "state"}

// errQuit says that the user left the prompt.
var errQuit = errors.New("the prompt was left")

// command runs a command of the prompt.
func (r *repl) command(ctx context.Context, text string) error {
	words := strings.Fields(text)
	word, args := strings.TrimPrefix(words[0], ":"), words[1:]
	switch {
	case word == "state" && len(args) <= 1:
		return r.state(ctx, args)
	case word == "mode" && len(args) <= 1:
		return r.setMode(args)
	case word == "reset" && len(args) == 0:
		info, err := r.c.ResetSession(ctx, r.selector())
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(r.a.out, "reset; epoch %d\n", info.Epoch)
		return err
	case word == "help" && len(args) == 0:
		_, err := fmt.Fprintln(r.a.out, replHelp)
		return err
	case (word == "quit" || word == "q" || word == "exit") && len(args) == 0:
		return errQuit
	}
	suggestion := ":help tells what the prompt can do"
	for _, known := range replWords {
		if d := surfaces.EditDistance(word, known); d > 0 && d <= 2 {
			suggestion = fmt.Sprintf("did you mean :%s?", known)
		}
	}
	return misuse(suggestion, "%q is not a command of the prompt", text)
}

func (r *repl) state(ctx context.Context, args []string) error {
	detail := "names"
	if len(args) > 0 {
		detail = args[0]
	}
	in, err := r.c.InspectState(ctx, r.selector(), detail)
	if err != nil {
		return err
	}
	if r.a.json {
		return r.a.printJSON(in)
	}
	return r.a.showInspection(in)
}

func (r *repl) setMode(args []string) error {
	if len(args) > 0 {
		modes := names(surfaces.StateModes())
		if !slices.Contains(modes, args[0]) {
			return misuse("give one of "+strings.Join(modes, ", "), "there is no state mode %q", args[0])
		}
		r.mode = args[0]
	}
	_, err := fmt.Fprintln(r.a.out, r.mode)
	return err
}

// selector selects the session of the prompt.
func (r *repl) selector() client.Selector {
	if r.named {
		return client.Selector{SessionName: &r.name}
	}
	language := string(r.language)
	return client.Selector{SessionID: &r.id, Language: &language, VenvID: when(r.inVenv, &r.venv)}
}
