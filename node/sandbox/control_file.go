package sandbox

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Files in /proc and control files of control groups never block. The os package registers
// them with its poller anyway, which accounts for two thirds of the system calls, and the
// start and end of a kernel use a dozen such files. So these functions bypass it.

// readReady returns the content of such a file. The error is an *os.PathError.
func readReady(path string) ([]byte, error) {
	fd, err := openReady(path, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	text := make([]byte, 0, 512)
	for {
		n, err := unix.Read(fd, text[len(text):cap(text)])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, &os.PathError{Op: "read", Path: path, Err: err}
		case n == 0:
			return text, nil
		}
		if text = text[:len(text)+n]; len(text) == cap(text) {
			text = append(text, make([]byte, len(text))...)[:len(text)]
		}
	}
}

// writeReady writes to such a file, which accepts the whole text or nothing. The error is
// an *os.PathError.
func writeReady(path, text string) error {
	fd, err := openReady(path, unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for {
		// A write that is interrupted by a signal has had no effect.
		if _, err = unix.Write(fd, []byte(text)); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return &os.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}

func openReady(path string, how int) (int, error) {
	for {
		fd, err := unix.Open(path, how|unix.O_CLOEXEC, 0)
		switch {
		case err == nil:
			return fd, nil
		case !errors.Is(err, unix.EINTR):
			return -1, &os.PathError{Op: "open", Path: path, Err: err}
		}
	}
}
