//go:build unix

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"time"

	"golang.org/x/term"
)

const (
	// cursorWithin bounds the wait for the terminal's answer. A later answer would be read
	// as keys, so it is long.
	cursorWithin = 2 * time.Second
	// typedAhead bounds the input typed during that wait, in bytes.
	typedAhead = 64 << 10
)

var cursorAnswer = regexp.MustCompile("\x1b\\[[0-9]+;[0-9]+R")

// reportsCursor asks a terminal for the position of its cursor and reports whether it
// answers; the line editor would wait for the answer for ever. Input typed meanwhile is
// returned.
func reportsCursor(in *os.File, out io.Writer) (tells bool, typed string, err error) {
	modes, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return false, "", fmt.Errorf("ask the terminal for its cursor: %w", err)
	}
	defer func() {
		if back := term.Restore(int(in.Fd()), modes); err == nil {
			err = back
		}
	}()
	if _, err := io.WriteString(out, "\x1b[6n"); err != nil {
		return false, "", err
	}
	var read []byte
	for until := time.Now().Add(cursorWithin); len(read) < typedAhead; {
		there, err := awaitInput(in, max(0, time.Until(until)))
		if err != nil {
			return false, "", fmt.Errorf("ask the terminal for its cursor: %w", err)
		}
		if !there {
			if time.Now().Before(until) {
				continue // interrupted by a signal
			}
			break
		}
		chunk := make([]byte, 1024)
		n, err := in.Read(chunk)
		read = append(read, chunk[:n]...)
		if at := cursorAnswer.FindIndex(read); at != nil {
			return true, string(bytes.Join([][]byte{read[:at[0]], read[at[1]:]}, nil)), nil
		}
		if err == io.EOF {
			break // the editor will get the error too
		}
		if err != nil {
			return false, "", fmt.Errorf("ask the terminal for its cursor: %w", err)
		}
	}
	return false, string(read), nil
}
