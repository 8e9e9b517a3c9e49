package main

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

// awaitInput waits for something to read, and says whether there is.
func awaitInput(in *os.File, limit time.Duration) (bool, error) {
	event, err := windows.WaitForSingleObject(windows.Handle(in.Fd()), uint32(limit.Milliseconds()))
	if errors.Is(err, windows.Errno(windows.WAIT_TIMEOUT)) {
		err = nil
	}
	return event == windows.WAIT_OBJECT_0, err
}
