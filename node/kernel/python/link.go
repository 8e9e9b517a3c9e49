package python

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// link is the node's end of one control socket. Any goroutine may send; only one may
// read at a time.
type link struct {
	file  *os.File
	conn  syscall.RawConn
	token []byte
	// forged counts the packets that were dropped because they had no valid token.
	forged atomic.Int64
	ended  atomic.Bool
	closed atomic.Bool

	// buf is taken from a pool while somebody reads: most kernels are idle.
	buf *[]byte

	closing sync.Once
}

var packetBuffers = sync.Pool{New: func() any { b := make([]byte, packetSize+oobSize); return &b }}

var oobSize = unix.CmsgSpace(4 * maxFiles)

// newLink makes a pair of sockets. It returns the node's end and the peer's, which
// the caller passes to the process and then closes.
func newLink(token []byte) (*link, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a control socket: %w", err)
	}
	peer := os.NewFile(uintptr(fds[1]), "control of a kernel")
	if err := unix.SetNonblock(fds[0], true); err != nil {
		unix.Close(fds[0])
		peer.Close()
		return nil, nil, fmt.Errorf("make a control socket: %w", err)
	}
	file := os.NewFile(uintptr(fds[0]), "control")
	conn, err := file.SyscallConn()
	if err != nil {
		file.Close()
		peer.Close()
		return nil, nil, fmt.Errorf("make a control socket: %w", err)
	}
	return &link{file: file, conn: conn, token: token}, peer, nil
}

func newToken() []byte {
	token := make([]byte, tokenSize)
	_, _ = rand.Read(token) // never fails: see crypto/rand
	return token
}

func hexToken(token []byte) string { return hex.EncodeToString(token) }

func (l *link) close() {
	l.closing.Do(func() {
		l.closed.Store(true)
		l.file.Close()
	})
}

// wake makes the current read and all later ones return at once. Packets that have
// arrived can still be read.
func (l *link) wake() { _ = l.file.SetReadDeadline(time.Unix(1, 0)) }

// end is wake for good, when the process at the other end is gone.
func (l *link) end() {
	l.ended.Store(true)
	l.wake()
}

// send sends one packet with files. It blocks while the socket's buffer is full.
func (l *link) send(packet []byte, files ...*os.File) error {
	_, err := l.transmit(packet, files, true)
	return err
}

// trySend sends one packet with files unless the socket's buffer is full. It reports
// whether the packet was sent.
func (l *link) trySend(packet []byte, files ...*os.File) (bool, error) {
	return l.transmit(packet, files, false)
}

func (l *link) transmit(packet []byte, files []*os.File, wait bool) (bool, error) {
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	var failed error
	err := l.conn.Write(func(fd uintptr) bool {
		for {
			failed = unix.Sendmsg(int(fd), packet, rights, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
			if !errors.Is(failed, unix.EINTR) {
				return !wait || !errors.Is(failed, unix.EAGAIN)
			}
		}
	})
	if err == nil {
		err = failed
	}
	if !wait && errors.Is(err, unix.EAGAIN) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("send to a kernel: %w", l.closedError(err))
	}
	return true, nil
}

// closedError returns os.ErrClosed instead of an error that was caused by close: a raw
// connection has no error of its own for a closed file.
func (l *link) closedError(err error) error {
	if l.closed.Load() {
		return os.ErrClosed
	}
	return err
}

// sendRequest sends a request as JSON.
func (l *link) sendRequest(r request, files ...*os.File) error {
	body, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("send to a kernel: %w", err)
	}
	p, large, err := packet(opRequest, nil, body)
	if err != nil {
		return err
	}
	if large != nil {
		defer large.Close()
		files = append(files, large)
	}
	return l.send(p, files...)
}

// receive returns the worker's next frame and drops packets without its token. The
// frame's body is valid until the next call. At the end of the stream the error is
// io.EOF.
func (l *link) receive() (frame, error) {
	if l.buf == nil {
		l.buf = packetBuffers.Get().(*[]byte)
	}
	for {
		n, files, err := l.read()
		if err != nil {
			return frame{}, err
		}
		f, err := parseFrame((*l.buf)[:n], l.token, files)
		if err == nil {
			return f, nil
		}
		l.forged.Add(1)
	}
}

// releaseBuffer gives the buffer back to the pool. It invalidates the last frame's body.
func (l *link) releaseBuffer() {
	if l.buf != nil {
		packetBuffers.Put(l.buf)
		l.buf = nil
	}
}

// read returns the next packet's length and its files.
func (l *link) read() (int, []*os.File, error) {
	var n int
	var files []*os.File
	var failed error
	take := func(fd uintptr) bool {
		n, files, failed = l.recvmsg(int(fd))
		return !errors.Is(failed, unix.EAGAIN)
	}
	err := l.conn.Read(take)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		// The process is gone, or the deadline has passed. Take what arrived before.
		err = l.conn.Control(func(fd uintptr) { take(fd) })
		if err == nil && errors.Is(failed, unix.EAGAIN) {
			return 0, nil, os.ErrDeadlineExceeded
		}
	}
	if err == nil {
		err = failed
	}
	if err != nil {
		return 0, nil, l.closedError(err)
	}
	return n, files, nil
}

// recvmsg receives one packet without waiting; the error is EAGAIN if there is none.
// A packet that is too long or has too many files is returned as an empty one, which
// no caller accepts as a frame.
func (l *link) recvmsg(fd int) (int, []*os.File, error) {
	data, oob := (*l.buf)[:packetSize], (*l.buf)[packetSize:]
	for {
		n, oobn, flags, _, err := unix.Recvmsg(fd, data, oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ECONNRESET):
			return 0, nil, io.EOF
		case err != nil:
			return 0, nil, err
		}
		files := received(oob[:oobn])
		if n == 0 && oobn == 0 && hungUp(fd) {
			return 0, nil, io.EOF
		}
		if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
			for _, f := range files {
				f.Close()
			}
			return 0, nil, nil
		}
		return n, files, nil
	}
}

// received returns the files in a packet's ancillary data.
func received(oob []byte) []*os.File {
	if len(oob) == 0 {
		return nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	var files []*os.File
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files
}

// hungUp distinguishes the end of the stream from an empty packet, which any holder of
// the other end can send.
func hungUp(fd int) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(p, 0)
	return err == nil && n > 0 && p[0].Revents&(unix.POLLHUP|unix.POLLRDHUP) != 0
}
