package shell

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/locusrun/locus/node/kernel"
)

// streams is the output of one call: two named pipes that the shell opens by
// name, and files with what the call reads.
type streams struct {
	dir     *directory
	capture *kernel.Capture
	names   []string
	// held are the node's own write ends. They keep the pipes from looking ended
	// before the shell has opened them.
	held []*os.File
}

// pipeSize is what an output pipe is asked to hold, in bytes.
const pipeSize = 1 << 20

// openStreams makes the pipes of call seq. Output goes to tap.
func openStreams(dir *directory, seq uint64, tap kernel.Tap) (*streams, error) {
	s := &streams{dir: dir}
	number := strconv.FormatUint(seq, 10)
	out, err := s.pipe("o" + number)
	if err != nil {
		return nil, err
	}
	errs, err := s.pipe("e" + number)
	if err != nil {
		out.Close()
		return nil, errors.Join(err, s.release())
	}
	if s.capture, err = kernel.ReadCapture(out, errs); err != nil {
		return nil, errors.Join(err, s.release())
	}
	s.capture.Attach(tap)
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

// file gives the call a file to read, under a name that goes with the streams.
func (s *streams) file(name, content string) error {
	s.names = append(s.names, name)
	if err := s.dir.write(name, content); err != nil {
		return fmt.Errorf("write what the call reads: %w", err)
	}
	return nil
}

// settle is called when the call has ended: all that it wrote has been given to
// its tap when settle returns, and the names are gone. Processes that the call
// left running keep the pipes, and the capture ends with the last of them.
func (s *streams) settle(log *slog.Logger) {
	s.capture.Drain()
	if err := s.release(); err != nil {
		log.Warn("a call's pipes were not removed", "error", err)
	}
}

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
