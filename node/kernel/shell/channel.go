package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/locusrun/locus/node/kernel"
)

// channel is the node's end of the socket to a bash that has the loadable builtin. A
// packet is one request or one reply. If code finds the shell's descriptor and writes to
// it, that is a separate packet without the token, which is dropped.
type channel struct {
	file *os.File
	raw  syscall.RawConn
	end
}

// maxInline is the most code that is sent in the packet itself, in bytes.
const maxInline = 32 << 10

// newChannel makes a pair of sockets. The peer is the shell's end, which the caller
// passes to the shell and then closes.
func newChannel() (c *channel, peer *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a control socket: %w", err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil, nil, fmt.Errorf("make a control socket: %w", err)
	}
	c = &channel{file: os.NewFile(uintptr(fds[0]), "control"), end: end{token: newToken(), goneC: make(chan struct{})}}
	peer = os.NewFile(uintptr(fds[1]), "control")
	if c.raw, err = c.file.SyscallConn(); err != nil {
		c.file.Close()
		peer.Close()
		return nil, nil, err
	}
	return c, peer, nil
}

// send implements line.
func (c *channel) send(ctx context.Context, r *request, files ...*os.File) error {
	if len(r.code) > maxInline {
		long, err := kernel.MemoryFile("code", []byte(r.code))
		if err != nil {
			return err
		}
		defer long.Close()
		r.inMemory = true
		files = append(files, long)
	}
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	packet := r.encode(false)
	stop := follow(ctx, c.file.SetWriteDeadline, &c.gone)
	defer stop()
	var failed error
	err := c.raw.Write(func(fd uintptr) bool {
		failed = unix.Sendmsg(int(fd), packet, rights, nil, unix.MSG_NOSIGNAL)
		for errors.Is(failed, unix.EINTR) {
			failed = unix.Sendmsg(int(fd), packet, rights, nil, unix.MSG_NOSIGNAL)
		}
		return !errors.Is(failed, unix.EAGAIN)
	})
	if err == nil && (errors.Is(failed, unix.EPIPE) || errors.Is(failed, unix.ECONNRESET)) {
		return errGone
	}
	return c.explain(ctx, errors.Join(err, failed))
}

// next implements line.
func (c *channel) next(ctx context.Context) (reply, *os.File, error) {
	stop := follow(ctx, c.file.SetReadDeadline, &c.gone)
	defer stop()
	for {
		var packet [maxReply]byte
		var ancillary [64]byte
		var n, space int
		var failed error
		take := func(fd uintptr) bool {
			n, space, _, _, failed = unix.Recvmsg(int(fd), packet[:], ancillary[:], unix.MSG_CMSG_CLOEXEC)
			return !errors.Is(failed, unix.EAGAIN) && !errors.Is(failed, unix.EINTR)
		}
		err := c.raw.Read(take)
		if err != nil && c.gone.Load() {
			// The deadline that ended the read also hides packets that have arrived.
			err = c.raw.Control(func(fd uintptr) { take(fd) })
			if err == nil && errors.Is(failed, unix.EAGAIN) {
				return reply{}, nil, errGone
			}
		}
		if err == nil && (failed == nil && n == 0 || errors.Is(failed, unix.ECONNRESET)) {
			return reply{}, nil, errGone
		}
		if err = errors.Join(err, failed); err != nil {
			return reply{}, nil, c.explain(ctx, err)
		}
		file := received(ancillary[:space])
		if r, ok := parseReply(packet[:n], c.token); ok {
			return r, file, nil
		}
		if file != nil {
			file.Close()
		}
		c.dropped.Add(1)
	}
}

// received returns the descriptor of a packet, or nil. It closes any further ones.
func received(ancillary []byte) *os.File {
	messages, err := unix.ParseSocketControlMessage(ancillary)
	if err != nil {
		return nil
	}
	var file *os.File
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue
		}
		for _, fd := range fds {
			if file == nil {
				file = os.NewFile(uintptr(fd), "received")
				continue
			}
			unix.Close(fd)
		}
	}
	return file
}

// ended implements line.
func (c *channel) ended() {
	c.markEnded()
	_ = c.file.SetDeadline(time.Unix(1, 0)) // a closed file needs no waking
}

func (c *channel) close() error { return c.file.Close() }
