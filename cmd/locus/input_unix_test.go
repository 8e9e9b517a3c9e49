//go:build unix

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Reading a line consumes one line and leaves the rest of the input to others.
func TestLineReader(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	read := lineReader(in)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := out.WriteString("one\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := read(ctx); line != "one" || err != nil {
		t.Errorf("%q %v", line, err)
	}
	gone, leave := context.WithCancelCause(t.Context())
	leave(errLeft)
	if _, err := read(gone); !errors.Is(err, errLeft) {
		t.Errorf("%v, want the context's cause", err)
	}
	if _, err := out.WriteString("two\n"); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(in.Fd()), Events: unix.POLLIN}}, 60_000); n != 1 || err != nil {
		t.Errorf("%d %v: the line is gone", n, err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if line, err := read(ctx); line != "two" || err != nil {
		t.Errorf("%q %v", line, err)
	}
	if _, err := read(ctx); !errors.Is(err, io.EOF) {
		t.Errorf("%v, want EOF", err)
	}
}
