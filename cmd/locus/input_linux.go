package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropInput discards pending input of a terminal.
func dropInput(in *os.File) error {
	return unix.IoctlSetInt(int(in.Fd()), unix.TCFLSH, unix.TCIFLUSH)
}
