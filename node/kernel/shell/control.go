package shell

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// control is the node's end of a shell's two control pipes, in the kernel's own
// directory. The node keeps both ends of both pipes open, so no data is lost while the
// shell does not have them open.
type control struct {
	dir   *directory
	lines bool // requests are lines of text
	req   *os.File
	rep   *os.File

	buf  []byte // read but not parsed yet
	skip bool   // drop the rest of a line that is too long
	end
}

// The named pipes of a kernel's directory. The scripts in boot know these names.
const (
	requests = "req"
	replies  = "rep"
)

// newControl makes the directory and the pipes for a shell of the dialect. A nil token
// means a new one.
func (d *dialect) newControl(path string, token []byte) (*control, error) {
	if token == nil {
		token = newToken()
	}
	dir, err := makeDirectory(path)
	if err != nil {
		return nil, err
	}
	c := &control{dir: dir, lines: d.codeInFile, end: end{token: token, goneC: make(chan struct{})}}
	if c.req, err = dir.fifo(requests, os.O_RDWR); err == nil {
		c.rep, err = dir.fifo(replies, os.O_RDWR)
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// send implements line. It cannot send descriptors.
func (c *control) send(ctx context.Context, r *request, files ...*os.File) error {
	if len(files) > 0 {
		return errors.New("shell: named pipes carry no descriptors")
	}
	stop := follow(ctx, c.req.SetWriteDeadline, &c.gone)
	defer stop()
	_, err := c.req.Write(r.encode(c.lines))
	return c.explain(ctx, err)
}

// next implements line. It never returns a descriptor.
func (c *control) next(ctx context.Context) (reply, *os.File, error) {
	stop := follow(ctx, c.rep.SetReadDeadline, &c.gone)
	defer stop()
	for {
		if r, ok := c.take(); ok {
			return r, nil, nil
		}
		if cap(c.buf)-len(c.buf) < maxReply {
			c.buf = append(make([]byte, 0, 4096), c.buf...)
		}
		n, err := c.rep.Read(c.buf[len(c.buf):cap(c.buf)])
		c.buf = c.buf[:len(c.buf)+n]
		if n > 0 {
			continue
		}
		if err != nil && c.gone.Load() {
			// The deadline that ended the read also hides what is still in the pipe.
			if c.salvage() {
				continue
			}
		}
		if err != nil {
			return reply{}, nil, c.explain(ctx, err)
		}
	}
}

// salvage reads what is in the pipe after the deadline has passed.
func (c *control) salvage() (some bool) {
	raw, err := c.rep.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		n, err := unix.Read(int(fd), c.buf[len(c.buf):cap(c.buf)])
		if err == nil && n > 0 {
			c.buf = c.buf[:len(c.buf)+n]
			some = true
		}
	})
	return some
}

// take returns the next reply in the buffer and drops lines that are not replies.
func (c *control) take() (reply, bool) {
	for {
		i := bytes.IndexByte(c.buf, '\n')
		if i < 0 {
			if len(c.buf) > maxReply {
				c.skip = true
				c.buf = c.buf[:0]
			}
			return reply{}, false
		}
		line := c.buf[:i]
		r, ok := reply{}, false
		if !c.skip {
			r, ok = parseReply(line, c.token)
		}
		c.skip = false
		c.buf = c.buf[i+1:]
		if ok {
			return r, true
		}
		if len(line) == 0 {
			continue // a reply starts with a newline, to end whatever code has written
		}
		c.dropped.Add(1)
	}
}

// newToken makes the secret with which each reply of a kernel starts.
func newToken() []byte {
	raw := make([]byte, 16)
	_, _ = rand.Read(raw) // crypto/rand never fails
	return []byte(hex.EncodeToString(raw))
}

// follow makes reads or writes fail when the context ends, by a deadline in the past,
// until stop is called. If the process has ended, the deadline stays.
func follow(ctx context.Context, set func(time.Time) error, gone *atomic.Bool) (stop func()) {
	if gone.Load() || ctx.Done() == nil {
		return func() {}
	}
	done := make(chan struct{})
	after := context.AfterFunc(ctx, func() {
		defer close(done)
		_ = set(time.Unix(1, 0))
	})
	return func() {
		if after() {
			return
		}
		<-done // so that its deadline is not set after the one below
		if gone.Load() {
			return
		}
		_ = set(time.Time{})
		if gone.Load() {
			_ = set(time.Unix(1, 0))
		}
	}
}

// ended implements line.
func (c *control) ended() {
	c.markEnded()
	// Setting a deadline fails only on a closed file, on which nobody waits.
	_ = c.req.SetWriteDeadline(time.Unix(1, 0))
	_ = c.rep.SetReadDeadline(time.Unix(1, 0))
}

// close removes the directory.
func (c *control) close() error {
	var errs []error
	for _, f := range []*os.File{c.req, c.rep} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(append(errs, c.dir.close())...)
}
