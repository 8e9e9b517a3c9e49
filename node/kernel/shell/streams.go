package shell

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/locusrun/locus/node/kernel"
)

// streams is a pair of named pipes that a shell opens for the output of a call, together
// with the files that the call reads. A pair is used again for the next call if only the
// shell can have it open.
type streams struct {
	dir     *directory
	number  uint64
	capture *kernel.Capture
	names   []string
	files   []string
	// held are the node's own write ends. They prevent end-of-file before the shell has
	// opened the pipes and between calls.
	held []*os.File
}

// pipeSize is the requested capacity of an output pipe, in bytes.
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
	// A smaller pipe is only slower, so a refusal is not an error.
	if raw, err := w.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize) })
	}
	return r, nil
}

// file makes a file for the call to read. settle removes it.
func (s *streams) file(name, content string) error {
	s.files = append(s.files, name)
	if err := s.dir.write(name, content); err != nil {
		return fmt.Errorf("write what the call reads: %w", err)
	}
	return nil
}

// settle ends a call: when it returns, the tap has received all that the call wrote, and
// the call's files are removed.
func (s *streams) settle() error {
	s.capture.Drain()
	var errs []error
	for _, name := range s.files {
		errs = append(errs, s.dir.remove(name))
	}
	s.files = nil
	return errors.Join(errs...)
}

// release closes the node's write ends and removes the pipes. Processes that still have
// them open keep writing to the last call's tap; the capture ends with the last of them.
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
