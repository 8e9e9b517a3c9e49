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

// maxQuestions bounds the questions of one call that wait for the person.
const maxQuestions = 16

// question is what running code wants to know.
type question struct {
	ID       string `json:"id"`
	Question string `json:"question"`
	// call is who asks.
	call string
}

// answering puts the questions of a call to the person at the terminal, one after
// the other, while its output goes on.
type answering struct {
	a       *app
	c       *client.Client
	waiting chan question
}

// answering gives who puts the questions of one call to the person; nil where nobody is
// there, or what is typed is the program's own input.
func (a *app) answering(c *client.Client) *answering {
	if !a.typed || a.json || a.readLine == nil {
		return nil
	}
	return &answering{a: a, c: c, waiting: make(chan question, maxQuestions)}
}

// ask takes a question of a call, if there is room for one.
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

// run asks until ctx ends, which it does with the call.
func (w *answering) run(ctx context.Context) {
	for {
		var q question
		select {
		case q = <-w.waiting:
		case <-ctx.Done():
			return
		}
		fmt.Fprintf(w.a.err, "locus: the code asks: %s\n> ", present.Plain(q.Question))
		line, err := w.a.readLine(ctx)
		switch {
		case ctx.Err() != nil:
			fmt.Fprintln(w.a.err)
			return
		case err != nil:
			fmt.Fprintf(w.a.err, "\nlocus: nothing was answered; answer with: locus calls answer --id %s %s TEXT\n", present.Plain(q.ID), q.call)
			continue
		}
		if _, err := w.c.Answer(ctx, q.call, q.ID, line); err != nil && ctx.Err() == nil {
			fmt.Fprintf(w.a.err, "locus: the answer did not arrive: %v\n", err)
		}
	}
}

// lookForInput is how often a wait for a line looks whether it is still wanted.
const lookForInput = 100 * time.Millisecond

// lineReader reads lines of a terminal, and stops waiting for one when ctx ends: what
// is typed later is left to whoever reads next.
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
				// A terminal gives one line at a time, and holds at most 4096 bytes of it.
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
