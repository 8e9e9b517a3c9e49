package main

import (
	"errors"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// awaitInput waits for input and reports whether there is any. The reader then waits for a
// whole line, so key releases, mouse and window events, which a console also has as input,
// must not count.
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

// dropInput discards pending input of a terminal.
func dropInput(in *os.File) error { return windows.FlushConsoleInputBuffer(windows.Handle(in.Fd())) }

// inputRecord is a Windows INPUT_RECORD for a key event.
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

// get reads the first record, and returns how many it has read: one or none.
func (r *inputRecord) get(how *windows.LazyProc, in *os.File) (n uint32, isConsole bool) {
	ok, _, _ := how.Call(in.Fd(), uintptr(unsafe.Pointer(r)), 1, uintptr(unsafe.Pointer(&n)))
	return n, ok != 0
}

// isUnread is always false: on Windows only a write shows it.
func isUnread(*os.File) bool { return false }
