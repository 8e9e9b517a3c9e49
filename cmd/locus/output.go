package main

import (
	"fmt"
	"io"
)

// output is where the command's answer goes.
type output struct{ to io.Writer }

// Write writes on. Its errors are *unwrittenError.
func (o output) Write(p []byte) (int, error) {
	n, err := o.to.Write(p)
	if err != nil {
		err = &unwrittenError{cause: err}
	}
	return n, err
}

// screen is where a program draws that has the whole terminal, which it asks itself for its
// size.
func (a *app) screen() io.Writer {
	if o, ok := a.out.(output); ok {
		return o.to
	}
	return a.out
}

// unwrittenError says that an answer was had and did not get out.
type unwrittenError struct {
	callID string // of the call that it answers; empty for none
	cause  error
}

func (e *unwrittenError) Error() string { return "the answer could not be written: " + e.cause.Error() }

func (e *unwrittenError) Unwrap() error { return e.cause }

// tell says what happened, for people even where answers are for programs: those have
// none.
func (e *unwrittenError) tell(to io.Writer) {
	fmt.Fprintf(to, "locus: %s\n", e)
	if e.callID != "" {
		fmt.Fprintf(to, "  suggestion: see it with: locus calls show %s\n", e.callID)
	}
}
