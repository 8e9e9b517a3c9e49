package mcpserver

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxMessage bounds one message of a server, and so the result of a call.
const maxMessage = 16 << 20

var errMessageTooLarge = fmt.Errorf("it sent a message of more than %d MiB", maxMessage>>20)

// messageReader passes on the lines of a server's standard output that can be messages.
// Many servers also print a banner there, which is skipped.
type messageReader struct {
	lines *bufio.Reader
	stray func(line []byte)
	rest  []byte
}

func newMessageReader(r io.Reader, stray func(line []byte)) *messageReader {
	return &messageReader{lines: bufio.NewReaderSize(r, 64<<10), stray: stray}
}

func (m *messageReader) Read(p []byte) (int, error) {
	for len(m.rest) == 0 {
		line, err := readLine(m.lines, maxMessage)
		if len(line) == 0 && err != nil {
			return 0, err
		}
		switch text := bytes.TrimSpace(line); {
		case len(text) == 0:
		case text[0] == '{' || text[0] == '[':
			m.rest = line
		default:
			m.stray(text)
		}
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// readLine reads a line with its newline. A last line without one is returned without an
// error. A line longer than limit gives errMessageTooLarge.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > limit {
			return nil, errMessageTooLarge
		}
		line = append(line, part...)
		switch {
		case err == nil, len(line) > 0 && !errors.Is(err, bufio.ErrBufferFull):
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// cappedReader fails when a body is longer than maxMessage.
type cappedReader struct {
	io.ReadCloser
	left int64
}

func (c *cappedReader) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if c.left -= int64(n); c.left < 0 {
		return 0, errMessageTooLarge
	}
	return n, err
}
