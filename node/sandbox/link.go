package sandbox

// The protocol between a container and its keeper.
//
// Both ends hold one end of a SOCK_SEQPACKET pair, so a message is a packet: a
// JSON object of at most maxMessage bytes, with descriptors beside it over
// SCM_RIGHTS. Both ends are always the same binary, so there are no versions.
//
//	container -> keeper   setup   first and once; with Leash, its file and the
//	                              control file that freezes the code
//	keeper -> container   ready   the answer to setup: what holds, what failed
//	container -> keeper   spawn   Files, and the group's directory if InGroup
//	keeper -> container   started the answer, with a pidfd unless Errno is set
//	container -> keeper   ack     the pid was read, and the process put into its
//	                              group; until then nothing is reaped
//	keeper -> container   exit    a spawned process ended; once each
//
// At most one spawn is under way at a time. End-of-file from the container is
// the keeper's order to end itself and everything that it holds.

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// maxMessage is in bytes. A packet must fit the socket's default send buffer.
	maxMessage = 128 << 10
	// maxDescriptors is below SCM_MAX_FD, with room for the group's directory.
	maxDescriptors = 128
)

type messageKind string

const (
	messageSetup   messageKind = "setup"
	messageReady   messageKind = "ready"
	messageSpawn   messageKind = "spawn"
	messageStarted messageKind = "started"
	messageAck     messageKind = "ack"
	messageExit    messageKind = "exit"
)

// message is any message of the protocol; the fields that its kind does not use
// are left out.
type message struct {
	Kind  messageKind     `json:"kind"`
	ID    uint64          `json:"id,omitempty"`
	Setup *setupOrder     `json:"setup,omitempty"`
	Ready *readyReport    `json:"ready,omitempty"`
	Spawn *spawnOrder     `json:"spawn,omitempty"`
	Start *startReport    `json:"start,omitempty"`
	Exit  unix.WaitStatus `json:"exit,omitempty"`
}

// setupOrder tells a keeper what to become.
type setupOrder struct {
	Workspace  string   `json:"workspace"`
	Hide       []string `json:"hide"`
	Show       []string `json:"show,omitempty"`
	Tag        uint64   `json:"tag"`
	Namespaces bool     `json:"namespaces"`
	Leash      bool     `json:"leash,omitempty"`
	// Processes is the limit that the keeper itself must set, by rlimit; 0 none.
	Processes int `json:"processes,omitempty"`
}

// readyReport tells what a keeper has set up. An empty Problems means all that
// was asked for.
type readyReport struct {
	Mounts   bool     `json:"mounts"`
	Proc     bool     `json:"proc"`
	Hidden   bool     `json:"hidden"`
	Shm      bool     `json:"shm"`
	SysSafe  bool     `json:"sys_safe"`
	Views    bool     `json:"views"`
	NProc    bool     `json:"nproc"`
	Problems []string `json:"problems,omitempty"`
	// Fatal is set when the keeper cannot serve at all.
	Fatal string `json:"fatal,omitempty"`
}

// spawnOrder is a Command on its way. The texts are bytes since they need not be
// UTF-8.
type spawnOrder struct {
	Path    []byte   `json:"path"`
	Args    [][]byte `json:"args"`
	Env     [][]byte `json:"env"`
	Dir     []byte   `json:"dir"`
	Files   int      `json:"files"`
	InGroup bool     `json:"in_group"`
	// Held has the process wait before its first instruction for the ack.
	Held bool `json:"held,omitempty"`
	// Tag is the group's tag, with which the process is born; 0 the container's.
	Tag uint64 `json:"tag,omitempty"`
}

// startReport answers a spawnOrder.
type startReport struct {
	Errno unix.Errno `json:"errno,omitempty"`
	// Dir says that the error is the directory's and not the program's.
	Dir bool `json:"dir,omitempty"`
	// InGroup says that the process was born in its group's cgroup.
	InGroup bool `json:"in_group,omitempty"`
}

// errMessageTooLong is given for a message that does not fit a packet.
var errMessageTooLong = errors.New("sandbox: the message to the keeper is too long")

// link is one end of the socket pair. Sends may be called at the same time;
// receive is called by one goroutine.
type link struct {
	conn *net.UnixConn
	send sync.Mutex
	buf  []byte
	oob  []byte
}

// newLink takes f over.
func newLink(f *os.File) (*link, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, fmt.Errorf("sandbox: the keeper's descriptor is a %T", c)
	}
	return &link{
		conn: conn,
		buf:  make([]byte, maxMessage),
		oob:  make([]byte, unix.CmsgSpace(4*(maxDescriptors+1))),
	}, nil
}

func (l *link) close() { l.conn.Close() }

// hungUp tells whether the other end is closed, without a wait for whoever reads.
func (l *link) hungUp() bool {
	raw, err := l.conn.SyscallConn()
	if err != nil {
		return true
	}
	var n int
	err = raw.Control(func(fd uintptr) {
		polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, _ = unix.Poll(polled, 0)
	})
	return err != nil || n > 0
}

// write sends a message and copies of the descriptors.
func (l *link) write(m message, fds ...int) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(b) > maxMessage {
		return errMessageTooLong
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	l.send.Lock()
	defer l.send.Unlock()
	_, _, err = l.conn.WriteMsgUnix(b, rights, nil)
	return err
}

// read receives a message and the descriptors with it, which the caller owns.
// At the end it gives io.EOF.
func (l *link) read() (message, []int, error) {
	n, oobn, flags, _, err := l.conn.ReadMsgUnix(l.buf, l.oob)
	if err != nil {
		return message{}, nil, err
	}
	fds, err := descriptors(l.oob[:oobn])
	if err == nil && flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		err = errMessageTooLong
	}
	var m message
	if err == nil && n == 0 {
		err = net.ErrClosed
	}
	if err == nil {
		err = json.Unmarshal(l.buf[:n], &m)
	}
	if err != nil {
		closeAll(fds)
		return message{}, nil, err
	}
	return m, fds, nil
}

func descriptors(oob []byte) ([]int, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	controls, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var fds []int
	for i := range controls {
		got, err := unix.ParseUnixRights(&controls[i])
		if err != nil {
			closeAll(fds)
			return nil, err
		}
		fds = append(fds, got...)
	}
	return fds, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
