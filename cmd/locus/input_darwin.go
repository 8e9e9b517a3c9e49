package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropInput discards pending input of a terminal.
func dropInput(in *os.File) error {
	const read = 1 // FREAD: the input queue
	return unix.IoctlSetPointerInt(int(in.Fd()), unix.TIOCFLUSH, read)
}
