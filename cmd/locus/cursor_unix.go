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
	// cursorWithin bounds how long a terminal may take to say where its cursor is. An answer
	// that is later would be taken for keys, so it is long.
	cursorWithin = 2 * time.Second
	// typedAhead bounds what may be typed meanwhile.
	typedAhead = 64 << 10
)

var cursorAnswer = regexp.MustCompile("\x1b\\[[0-9]+;[0-9]+R")

// tellsCursor asks a terminal where its cursor is, and says whether it answers: who asks
// one that does not waits for ever. What was typed meanwhile is given back.
func tellsCursor(in *os.File, out io.Writer) (tells bool, typed string, err error) {
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
				continue // a signal came between
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
			break // the editor comes to it too
		}
		if err != nil {
			return false, "", fmt.Errorf("ask the terminal for its cursor: %w", err)
		}
	}
	return false, string(read), nil
}
