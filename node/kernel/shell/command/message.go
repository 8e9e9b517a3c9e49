package command

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
)

const (
	// maxMessage bounds a command's message and its answer, in bytes.
	maxMessage = 16 << 20
	// A message of more than largeMessage bytes takes one of the door's maxLarge tokens
	// until it is answered, which bounds the node's memory.
	largeMessage = 64 << 10
	maxLarge     = 4
)

var errTooLarge = fmt.Errorf("arguments and input are larger than %d MiB together", maxMessage>>20)

// message is what a command sends, after the caller's name.
type message struct {
	arguments []string
	input     []byte
}

// readPart reads one part of at most limit bytes. It allocates memory for what arrives, not
// for the announced length.
func readPart(from io.Reader, limit int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return nil, err
	}
	size := int64(binary.BigEndian.Uint32(head[:]))
	if size > int64(limit) {
		return nil, errTooLarge
	}
	var part bytes.Buffer
	if _, err := io.CopyN(&part, from, size); err != nil {
		return nil, err
	}
	return part.Bytes(), nil
}

// readMessage reads a command's message. The caller must call release, which is never nil,
// when the message is answered.
func (d *Door) readMessage(ctx context.Context, conn *net.UnixConn) (_ message, release func(), err error) {
	release = func() {}
	from := &metered{conn: conn, small: largeMessage, grow: func() error {
		select {
		case d.large <- struct{}{}:
			release = func() { <-d.large }
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}}
	defer func() {
		if err != nil {
			release()
			release = func() {}
		}
	}()
	said, err := readPart(from, maxMessage)
	if err != nil {
		return message{}, release, err
	}
	var m message
	if len(said) > 0 {
		m.arguments = strings.Split(strings.TrimSuffix(string(said), "\x00"), "\x00")
	}
	left := maxMessage - len(said)
	for {
		part, err := readPart(from, left)
		if err != nil {
			return message{}, release, err
		}
		if len(part) == 0 {
			return m, release, nil
		}
		m.input = append(m.input, part...)
		left -= len(part)
	}
}

// metered reads from a connection, and calls grow before it reads more than small bytes.
type metered struct {
	conn  *net.UnixConn
	read  int
	small int
	grow  func() error
}

func (m *metered) Read(p []byte) (int, error) {
	if m.grow != nil && m.read >= m.small {
		if err := m.grow(); err != nil {
			return 0, err
		}
		m.grow = nil
	}
	if m.grow != nil {
		p = p[:min(len(p), m.small-m.read)]
	}
	n, err := m.conn.Read(p)
	m.read += n
	return n, err
}

// answer is the command's output and its exit status.
type answer struct {
	status         byte
	stdout, stderr []byte
}

// The exit statuses of the command.
const (
	statusDone   = 0
	statusFailed = 1
	statusMisuse = 2
)

func failure(err error) answer { return complaint(statusFailed, err.Error()) }

func complaint(status byte, text string) answer {
	return answer{status: status, stderr: []byte(Name + ": " + text + "\n")}
}

func (a answer) send(to *net.UnixConn) error {
	head := binary.BigEndian.AppendUint32([]byte{a.status}, uint32(len(a.stdout)))
	between := binary.BigEndian.AppendUint32(nil, uint32(len(a.stderr)))
	buffers := net.Buffers{head, a.stdout, between, a.stderr}
	_, err := buffers.WriteTo(to)
	return err
}

// errGone means that the command has ended and waits for no answer.
var errGone = errors.New("the command is gone")
