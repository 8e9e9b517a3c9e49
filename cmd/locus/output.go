package main

import (
	"fmt"
	"io"
)

// output is the command's standard output.
type output struct{ to io.Writer }

// Write writes on. Its errors are *unwrittenError.
func (o output) Write(p []byte) (int, error) {
	n, err := o.to.Write(p)
	if err != nil {
		err = &unwrittenError{cause: err}
	}
	return n, err
}

// screen is the output for a full-screen program, which must be the terminal itself because
// the program asks it for its size.
func (a *app) screen() io.Writer {
	if o, ok := a.out.(output); ok {
		return o.to
	}
	return a.out
}

// unwrittenError says that there was an answer, but it could not be written.
type unwrittenError struct {
	callID string // the call that was answered; empty if none was
	cause  error
}

func (e *unwrittenError) Error() string { return "the answer could not be written: " + e.cause.Error() }

func (e *unwrittenError) Unwrap() error { return e.cause }

// tell prints the error for users, also with --json, which has no object for it.
func (e *unwrittenError) tell(to io.Writer) {
	fmt.Fprintf(to, "locus: %s\n", e)
	if e.callID != "" {
		fmt.Fprintf(to, "  suggestion: see it with: locus calls show %s\n", e.callID)
	}
}
