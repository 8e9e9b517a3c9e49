package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropInput drops what was typed at a terminal and nobody has read.
func dropInput(in *os.File) error {
	return unix.IoctlSetInt(int(in.Fd()), unix.TCFLSH, unix.TCIFLUSH)
}
