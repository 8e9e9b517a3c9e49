package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropInput drops what was typed at a terminal and nobody has read.
func dropInput(in *os.File) error {
	const read = 1 // FREAD, of both queues the one of what comes in
	return unix.IoctlSetPointerInt(int(in.Fd()), unix.TIOCFLUSH, read)
}
