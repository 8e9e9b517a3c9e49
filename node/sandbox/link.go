package sandbox

// The protocol between a container and its keeper.
//
// Each side has one end of a SOCK_SEQPACKET pair. A message is one packet: a JSON object of
// at most maxMessage bytes, and descriptors over SCM_RIGHTS. Both sides are the same binary,
// so the protocol has no versions.
//
//	container -> keeper   setup   first and once; with Leash, its file and the
//	                              control file that freezes the code
//	keeper -> container   ready   the answer to setup: what succeeded, what failed
//	container -> keeper   spawn   Files, and the group's directory if InGroup
//	keeper -> container   started the answer, with a pidfd unless Errno is set
//	container -> keeper   ack     the pid was read, and the process put into its
//	                              group; until then nothing is reaped
//	keeper -> container   exit    a spawned process ended; once each
//
// At most one spawn is in progress at a time. At end-of-file from the container the keeper
// ends itself and all processes of the container.

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxMessage is in bytes. A packet must fit into the socket's default send buffer.
	maxMessage = 128 << 10
	// maxDescriptors is below SCM_MAX_FD, which leaves room for the group's directory.
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

// message is any message of the protocol. Only the fields of its kind are set.
type message struct {
	Kind  messageKind     `json:"kind"`
	ID    uint64          `json:"id,omitempty"`
	Setup *setupOrder     `json:"setup,omitempty"`
	Ready *readyReport    `json:"ready,omitempty"`
	Spawn *spawnOrder     `json:"spawn,omitempty"`
	Start *startReport    `json:"start,omitempty"`
	Exit  unix.WaitStatus `json:"exit,omitempty"`
	CPU   time.Duration   `json:"cpu,omitempty"` // of the process that exited
}

// setupOrder configures a keeper.
type setupOrder struct {
	Workspace  string   `json:"workspace"`
	Hide       []string `json:"hide"`
	Show       []string `json:"show,omitempty"`
	Tag        uint64   `json:"tag"`
	Namespaces bool     `json:"namespaces"`
	Leash      bool     `json:"leash,omitempty"`
	// Processes is the limit of processes that the keeper must set by rlimit; 0 means none.
	Processes int `json:"processes,omitempty"`
}

// readyReport says what a keeper has set up. Problems is empty if that is everything.
type readyReport struct {
	Mounts   bool     `json:"mounts"`
	Proc     bool     `json:"proc"`
	Hidden   bool     `json:"hidden"`
	Shm      bool     `json:"shm"`
	SysSafe  bool     `json:"sys_safe"`
	Views    bool     `json:"views"`
	NProc    bool     `json:"nproc"`
	Problems []string `json:"problems,omitempty"`
	// Fatal is set if the keeper cannot work at all.
	Fatal string `json:"fatal,omitempty"`
}

// spawnOrder is an encoded Command. The texts are bytes because they need not be UTF-8.
type spawnOrder struct {
	Path    []byte   `json:"path"`
	Args    [][]byte `json:"args"`
	Env     [][]byte `json:"env"`
	Dir     []byte   `json:"dir"`
	Files   int      `json:"files"`
	InGroup bool     `json:"in_group"`
	// Held makes the process wait for the ack before its first instruction.
	Held bool `json:"held,omitempty"`
	// Tag is the tag of the process's group; 0 means the container's.
	Tag uint64 `json:"tag,omitempty"`
}

// startReport answers a spawnOrder.
type startReport struct {
	Errno unix.Errno `json:"errno,omitempty"`
	// Dir is set if the error concerns the directory and not the program.
	Dir bool `json:"dir,omitempty"`
	// InGroup is set if the process was created in its group's control group.
	InGroup bool `json:"in_group,omitempty"`
}

// errMessageTooLong is the error of a message that does not fit into a packet.
var errMessageTooLong = errors.New("sandbox: the message to the keeper is too long")

// link is one end of the socket pair. write is safe for concurrent use; read must be called
// by one goroutine only.
type link struct {
	conn *net.UnixConn
	send sync.Mutex
	buf  []byte
	oob  []byte
}

// newLink takes ownership of f.
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

// hungUp reports whether the other end is closed. It does not interfere with a reader.
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

// read receives a message and its descriptors, which the caller owns. At the end of the
// stream the error is io.EOF or net.ErrClosed.
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
