package kernel

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// Capture reads the two output streams of a kernel on the node's side and passes
// what it reads to the Tap that is attached at that moment.
//
// A Capture owns two goroutines, one per stream. They park in the network poller
// while there is nothing to read and end at end-of-file or at Close.
type Capture struct {
	pumps [2]pump
	ended chan struct{} // closed when both streams have ended
	live  atomic.Int32  // pumps that still read
}

// pump reads one stream. Its lock keeps the bytes in order: Drain reads on the
// caller's goroutine, at the same time as the pump's own goroutine.
type pump struct {
	stream Stream
	file   *os.File
	conn   syscall.RawConn

	mu  sync.Mutex
	tap Tap  // receives the output; changes with each program
	eof bool // no process holds the stream open any more
}

// pipeSize is the requested capacity of each pipe, large enough that a program
// that prints in bursts rarely waits for the node.
const pipeSize = 1 << 20

// readSize is the most that one read takes.
const readSize = 256 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, readSize); return &b }}

// NewCapture makes two pipes and reads them. It returns their write ends, which
// the caller passes to the kernel's process and then closes.
func NewCapture() (c *Capture, stdout, stderr *os.File, err error) {
	outR, outW, err := pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	errR, errW, err := pipe()
	if err != nil {
		outR.Close()
		outW.Close()
		return nil, nil, nil, err
	}
	c, err = ReadCapture(outR, errR)
	if err != nil {
		outW.Close()
		errW.Close()
		return nil, nil, nil, err
	}
	return c, outW, errW, nil
}

// pipe makes a pipe with a non-blocking read end. The write end blocks, as
// programs expect of their standard output.
func pipe() (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("make an output pipe: %w", err)
	}
	// A smaller pipe is only slower, so a refusal is not an error.
	_, _ = unix.FcntlInt(uintptr(fds[0]), unix.F_SETPIPE_SZ, pipeSize)
	if err := unix.SetNonblock(fds[0], true); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil, nil, fmt.Errorf("make an output pipe: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "output"), os.NewFile(uintptr(fds[1]), "output"), nil
}

// ReadCapture reads from the given pipes, which must be in non-blocking mode. It
// takes ownership of them, even if it fails.
func ReadCapture(stdout, stderr *os.File) (*Capture, error) {
	c := &Capture{ended: make(chan struct{})}
	for i, f := range []*os.File{stdout, stderr} {
		conn, err := f.SyscallConn()
		if err != nil {
			stdout.Close()
			stderr.Close()
			return nil, fmt.Errorf("read output: %w", err)
		}
		p := &c.pumps[i]
		p.stream, p.file, p.conn = Stream(i+1), f, conn
	}
	c.live.Store(2)
	for i := range c.pumps {
		go c.run(&c.pumps[i])
	}
	return c, nil
}

func (c *Capture) run(p *pump) {
	// The callback returns false to be called again when the descriptor is
	// readable, and true at end-of-file. An error means that Close was called or
	// that reading failed; either way no more output can arrive.
	_ = p.conn.Read(func(fd uintptr) bool { return p.read(int(fd)) })
	p.mu.Lock()
	p.eof = true
	p.mu.Unlock()
	if c.live.Add(-1) == 0 {
		close(c.ended)
	}
}

// read takes what is available now and reports whether the stream has ended.
func (p *pump) read(fd int) (end bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.eof {
		return true
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for {
		n, err := unix.Read(fd, *buf)
		switch {
		case n > 0:
			if p.tap != nil {
				p.tap.Output(p.stream, (*buf)[:n])
			}
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return false
		default:
			p.eof = true
			return true
		}
	}
}

// Attach sends later output to t; nil discards it.
func (c *Capture) Attach(t Tap) {
	for i := range c.pumps {
		p := &c.pumps[i]
		p.mu.Lock()
		p.tap = t
		p.mu.Unlock()
	}
}

// Drain returns when everything that was written to the streams before the call
// has been given to the attached tap. It does not wait for writers: a process
// that goes on writing delays it by at most drainLimit bytes per stream.
func (c *Capture) Drain() {
	for i := range c.pumps {
		p := &c.pumps[i]
		_ = p.conn.Control(func(fd uintptr) { p.drain(int(fd)) })
	}
}

// drainLimit bounds one Drain. It is the most that a pipe can hold without privileges.
const drainLimit = pipeSize

func (p *pump) drain(fd int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.eof {
		return
	}
	// Most calls print little or nothing, so check before taking a buffer.
	waiting, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil || waiting == 0 {
		return
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for left := min(waiting, drainLimit); left > 0; {
		n, err := unix.Read(fd, (*buf)[:min(left, readSize)])
		if n > 0 {
			left -= n
			if p.tap != nil {
				p.tap.Output(p.stream, (*buf)[:n])
			}
			continue
		}
		if errors.Is(err, unix.EINTR) {
			continue
		}
		// Empty, ended or broken: nothing that was written before is left.
		return
	}
}

// Ended is closed when both streams have ended: no process holds them any more,
// or the capture was closed.
func (c *Capture) Ended() <-chan struct{} { return c.ended }

// Close stops reading. Processes that still write get EPIPE.
func (c *Capture) Close() error {
	var errs []error
	for i := range c.pumps {
		if err := c.pumps[i].file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			errs = append(errs, err)
		}
	}
	<-c.ended
	return errors.Join(errs...)
}

var _ io.Closer = (*Capture)(nil)
