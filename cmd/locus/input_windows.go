package main

import (
	"errors"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// awaitInput waits for something to read, and says whether there is. Whoever reads then
// waits for the end of a line, so that a key that is let go, a mouse that is moved and a
// window that comes to the front, which a console has among its input, must not count.
func awaitInput(in *os.File, limit time.Duration) (bool, error) {
	event, err := windows.WaitForSingleObject(windows.Handle(in.Fd()), uint32(limit.Milliseconds()))
	if errors.Is(err, windows.Errno(windows.WAIT_TIMEOUT)) {
		err = nil
	}
	if event != windows.WAIT_OBJECT_0 || err != nil {
		return false, err
	}
	for {
		var r inputRecord
		n, isConsole := r.get(peekInput, in)
		switch {
		case !isConsole:
			return true, nil
		case n == 0:
			return false, nil
		case r.kind == keyEvent && r.down != 0 && r.char != 0:
			return true, nil
		}
		r.get(readInput, in)
	}
}

// dropInput drops what was typed at a terminal and nobody has read.
func dropInput(in *os.File) error { return windows.FlushConsoleInputBuffer(windows.Handle(in.Fd())) }

// inputRecord is an INPUT_RECORD of Windows, as it is for a key.
type inputRecord struct {
	kind, _                 uint16
	down                    int32
	repeat, key, scan, char uint16
	control                 uint32
}

const keyEvent = 1

var (
	console   = windows.NewLazySystemDLL("kernel32.dll")
	peekInput = console.NewProc("PeekConsoleInputW")
	readInput = console.NewProc("ReadConsoleInputW")
)

// get gets the first record there is, and says how many it got: one or none.
func (r *inputRecord) get(how *windows.LazyProc, in *os.File) (n uint32, isConsole bool) {
	ok, _, _ := how.Call(in.Fd(), uintptr(unsafe.Pointer(r)), 1, uintptr(unsafe.Pointer(&n)))
	return n, ok != 0
}

// isUnread cannot tell whether anybody reads: here only a write says so.
func isUnread(*os.File) bool { return false }
