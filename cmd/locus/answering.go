package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/locusrun/locus/cmd/locus/present"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/gateway/client"
)

// maxQuestions bounds the questions of one call that wait for the user.
const maxQuestions = 16

// question is a question of the running code.
type question struct {
	ID       string `json:"id"`
	Question string `json:"question"`
	// call is the id of the asking call.
	call string
}

// answering asks the user at the terminal a call's questions one after another, while the
// call's output goes on.
type answering struct {
	a       *app
	c       *client.Client
	waiting chan question
}

// answering returns what asks the user a call's questions; nil if there is no user, or if
// the terminal is the program's own input.
func (a *app) answering(c *client.Client) *answering {
	if !a.typed || a.json || a.readLine == nil {
		return nil
	}
	return &answering{a: a, c: c, waiting: make(chan question, maxQuestions)}
}

// ask queues a question of a call; false if the queue is full.
func (w *answering) ask(callID string, ev gateway.StreamEvent) bool {
	q := question{call: callID}
	if json.Unmarshal(ev.Data, &q) != nil {
		return false
	}
	select {
	case w.waiting <- q:
		return true
	default:
		return false
	}
}

// run asks the questions until ctx ends, which is at the end of the call.
func (w *answering) run(ctx context.Context) {
	for {
		var q question
		select {
		case q = <-w.waiting:
		case <-ctx.Done():
			return
		}
		fmt.Fprintf(w.a.err, "locus: the code asks: %s\n> ", present.Sanitise(q.Question))
		line, err := w.a.readLine(ctx)
		switch {
		case ctx.Err() != nil:
			fmt.Fprintln(w.a.err)
			return
		case err != nil:
			fmt.Fprintf(w.a.err, "\nlocus: nothing was answered; answer with: locus calls answer --id %s %s TEXT\n", present.Sanitise(q.ID), q.call)
			continue
		}
		if _, err := w.c.Answer(ctx, q.call, q.ID, line); err != nil && ctx.Err() == nil {
			fmt.Fprintf(w.a.err, "locus: the answer did not arrive: %v\n", err)
		}
	}
}

// lookForInput is how often a wait for a line checks whether it has been cancelled.
const lookForInput = 100 * time.Millisecond

// lineReader reads lines from a terminal. A read ends with its ctx; what is typed later
// goes to the next reader.
func lineReader(in *os.File) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		for {
			there, err := awaitInput(in, lookForInput)
			switch {
			case ctx.Err() != nil:
				return "", context.Cause(ctx)
			case err != nil:
				return "", err
			case there:
				// A terminal in line mode returns one line of at most 4096 bytes.
				buf := make([]byte, 4096)
				n, err := in.Read(buf)
				if err == nil && n == 0 {
					err = io.EOF
				}
				return strings.TrimRight(string(buf[:max(n, 0)]), "\r\n"), err
			}
		}
	}
}
