package shell

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/locusrun/locus/node/kernel"
)

// streams is a pair of named pipes that a shell opens by name for the output of a
// call, with files of what the call reads. A pair serves one call after another for
// as long as no process but the shell can hold it.
type streams struct {
	dir     *directory
	number  uint64
	capture *kernel.Capture
	names   []string
	files   []string
	// held are the node's own write ends. They keep the pipes from looking ended
	// before the shell has opened them, and between two calls.
	held []*os.File
}

// pipeSize is what an output pipe is asked to hold, in bytes.
const pipeSize = 1 << 20

// openStreams makes the pair of pipes with the given number.
func openStreams(dir *directory, number uint64) (*streams, error) {
	s := &streams{dir: dir, number: number}
	suffix := strconv.FormatUint(number, 10)
	out, err := s.pipe("o" + suffix)
	if err != nil {
		return nil, err
	}
	errs, err := s.pipe("e" + suffix)
	if err != nil {
		out.Close()
		return nil, errors.Join(err, s.release())
	}
	if s.capture, err = kernel.ReadCapture(out, errs); err != nil {
		return nil, errors.Join(err, s.release())
	}
	return s, nil
}

func (s *streams) pipe(name string) (*os.File, error) {
	r, err := s.dir.fifo(name, os.O_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("make an output pipe: %w", err)
	}
	s.names = append(s.names, name)
	w, err := s.dir.open(name, os.O_WRONLY|unix.O_NONBLOCK)
	if err != nil {
		r.Close()
		return nil, errors.Join(fmt.Errorf("hold an output pipe: %w", err), s.release())
	}
	s.held = append(s.held, w)
	// A smaller pipe works as well, only slower, so a refusal is no error.
	if raw, err := w.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize) })
	}
	return r, nil
}

// file gives a call a file to read; it goes when the call has ended.
func (s *streams) file(name, content string) error {
	s.files = append(s.files, name)
	if err := s.dir.write(name, content); err != nil {
		return fmt.Errorf("write what the call reads: %w", err)
	}
	return nil
}

// settle is called when a call has ended: all that it wrote has been given to its
// tap when settle returns.
func (s *streams) settle() error {
	s.capture.Drain()
	var errs []error
	for _, name := range s.files {
		errs = append(errs, s.dir.remove(name))
	}
	s.files = nil
	return errors.Join(errs...)
}

// release gives the pipes up. Processes that hold them go on writing to the last
// call's tap, and the capture ends with the last of them.
func (s *streams) release() error {
	var errs []error
	for _, f := range s.held {
		errs = append(errs, f.Close())
	}
	for _, name := range s.names {
		errs = append(errs, s.dir.remove(name))
	}
	s.held, s.names = nil, nil
	return errors.Join(errs...)
}
