package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Leash is a deadline until which the code in containers may run. When it passes, the
// keepers freeze the code. A node whose own process is stopped (SIGSTOP, a frozen machine)
// cannot freeze the code that it may no longer serve; the keepers are other processes and
// can. A Leash needs v2 control groups; without them it does nothing. It is safe for
// concurrent use. A nil Leash does nothing.
type Leash struct {
	// file has the deadline in nanoseconds of CLOCK_BOOTTIME; 0 means no deadline. The
	// keepers have it open.
	file *os.File
}

const (
	leashSize = 8
	// leashLook is the interval at which a keeper checks the leash while the code is
	// frozen, and freeLook the one while there is no deadline.
	leashLook = 20 * time.Millisecond
	freeLook  = 250 * time.Millisecond
)

// NewLeash makes a leash without a deadline.
func NewLeash() (*Leash, error) {
	fd, err := unix.MemfdCreate("leash", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("sandbox: making a leash: %w", err)
	}
	l := &Leash{os.NewFile(uintptr(fd), "leash")}
	if err := l.Clear(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Set sets the deadline to d from now. When it has passed, the code is frozen until the
// next Set or Clear.
func (l *Leash) Set(d time.Duration) error { return l.set(bootTime() + d.Nanoseconds()) }

// Clear removes the deadline.
func (l *Leash) Clear() error { return l.set(0) }

// Close releases the leash. Containers that use it keep the last deadline.
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

// leashEnd reads the deadline, in nanoseconds of CLOCK_BOOTTIME; 0 means none.
func leashEnd(file *os.File) (until int64, err error) {
	var word, again [leashSize]byte
	for {
		// Writes to the file are not guaranteed to be atomic, so read until two reads agree.
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

// heed freezes the code of a keeper's container while the deadline has passed. It runs as
// long as the keeper.
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
				return fmt.Errorf("freezing or thawing the code: %w", err)
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

// sleepUntil waits for a time of CLOCK_BOOTTIME, or for a signal. time.Sleep does not count
// the time in which the machine is suspended, so code would run past the deadline after a
// resume.
func sleepUntil(end int64) error {
	at := unix.NsecToTimespec(end)
	err := unix.ClockNanosleep(unix.CLOCK_BOOTTIME, unix.TIMER_ABSTIME, &at, nil)
	if errors.Is(err, unix.EINTR) {
		return nil
	}
	return err
}

// bootTime returns the time since boot, including suspend, in nanoseconds.
func bootTime() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(fmt.Sprintf("sandbox: the boot clock cannot be read: %v", err)) // Linux has it since 2.6.39
	}
	return t.Nano()
}
