package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Leash bounds how long the code in containers runs without a word of the node. A node
// that is stopped cannot hold still what it may not serve any more; the keepers, which
// are other processes, then do. It needs v2 control groups; elsewhere it does nothing.
// Its methods may be called at the same time; nil is a leash that does nothing.
type Leash struct {
	// file holds when the time is up, by the clock that counts sleep too, in
	// nanoseconds; 0 for never. The keepers have it open.
	file *os.File
}

const (
	leashSize = 8
	// leashLook is how soon a keeper looks again while it holds code still, and
	// freeLook while there is no end. The time between is short in both.
	leashLook = 20 * time.Millisecond
	freeLook  = 250 * time.Millisecond
)

// NewLeash makes a leash that is free.
func NewLeash() (*Leash, error) {
	fd, err := unix.MemfdCreate("leash", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("sandbox: making a leash: %w", err)
	}
	l := &Leash{os.NewFile(uintptr(fd), "leash")}
	if err := l.Free(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Give lets the code run for so long from now, and never for less than was said before.
// What runs then is held still, until the next Give or Free.
func (l *Leash) Give(d time.Duration) error { return l.set(bootTime() + d.Nanoseconds()) }

// Free lets the code run without an end: the node itself sees to it.
func (l *Leash) Free() error { return l.set(0) }

// Close gives the leash up. Containers that have it keep what it said last.
func (l *Leash) Close() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}

func (l *Leash) set(until int64) error {
	if l == nil {
		return nil
	}
	if _, err := l.file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(until)), 0); err != nil {
		return fmt.Errorf("sandbox: setting a leash: %w", err)
	}
	return nil
}

// leashEnd gives until when code may run, by the boot clock; 0 for without an end.
func leashEnd(file *os.File) (until int64, err error) {
	var word, again [leashSize]byte
	for {
		// Nothing says that the kernel writes the bytes all at once.
		if _, err := file.ReadAt(word[:], 0); err != nil {
			return 0, err
		}
		if _, err := file.ReadAt(again[:], 0); err != nil {
			return 0, err
		}
		if word == again {
			return int64(binary.NativeEndian.Uint64(word[:])), nil
		}
	}
}

// heed holds the code of a keeper's container still for as long as the leash has run
// out. It ends with the keeper.
func heed(leash, freeze *os.File) error {
	held := false
	for {
		until, err := leashEnd(leash)
		if err != nil {
			return fmt.Errorf("reading the leash: %w", err)
		}
		if over := until != 0 && until <= bootTime(); over != held {
			value := "0"
			if over {
				value = "1"
			}
			if _, err := freeze.WriteAt([]byte(value), 0); err != nil {
				return fmt.Errorf("holding the code still: %w", err)
			}
			held = over
		}
		switch {
		case held:
			time.Sleep(leashLook)
		case until != 0:
			if err := sleepUntil(until); err != nil {
				return fmt.Errorf("waiting for the leash's end: %w", err)
			}
		default:
			time.Sleep(freeLook)
		}
	}
}

// sleepUntil waits for a time of the boot clock, or for a signal. What time.Sleep waits by
// stands still while the machine sleeps, and code would run on for as long when it wakes.
func sleepUntil(end int64) error {
	at := unix.NsecToTimespec(end)
	err := unix.ClockNanosleep(unix.CLOCK_BOOTTIME, unix.TIMER_ABSTIME, &at, nil)
	if errors.Is(err, unix.EINTR) {
		return nil
	}
	return err
}

// bootTime is the time since the machine's start, its sleep counted, in nanoseconds.
func bootTime() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(fmt.Sprintf("sandbox: the boot clock cannot be read: %v", err)) // Linux has it since 2.6.39
	}
	return t.Nano()
}
