package oneshot

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// Frames between the agent and Python, over two pipes.
//
// From the program: token, kind (1 byte), length (u32 LE), body. To the program: the same
// without the token. The code runs in the same process and can write to any descriptor, so
// bytes that do not begin with the token are skipped.
const (
	tokenSize = 16
	frameHead = 5
	// maxFrame bounds a body. It is larger than all limits of the worker's modules.
	maxFrame = 48 << 20
)

// The kinds of frames.
const (
	frameHello   = 'H' // from the program: ready
	frameEvent   = 'E' // from the program: JSON of a notify or a display
	frameRequest = 'P' // from the program: a use of a primitive
	frameDone    = 'D' // from the program: JSON of the report
	frameRun     = 'R' // to the program: what to run, as JSON
	frameAnswer  = 'A' // to the program: the answer to a primitive
)

// frameReader reads a program's frames.
type frameReader struct {
	in    *bufio.Reader
	token []byte // begins each genuine frame, so that other output is not taken for one
}

func newFrameReader(from io.Reader, token []byte) *frameReader {
	return &frameReader{bufio.NewReaderSize(from, 64<<10), token}
}

// next returns the next frame. The error is io.EOF at the end of the pipe, or that of a
// deadline.
func (f *frameReader) next() (kind byte, body []byte, err error) {
	for {
		head, err := f.in.Peek(tokenSize + frameHead)
		if err != nil {
			return 0, nil, err
		}
		size := binary.LittleEndian.Uint32(head[tokenSize+1:])
		if !bytes.Equal(head[:tokenSize], f.token) || size > maxFrame {
			_, _ = f.in.Discard(1) // cannot fail: the byte was peeked
			continue
		}
		kind = head[tokenSize]
		_, _ = f.in.Discard(len(head))
		body = make([]byte, size)
		_, err = io.ReadFull(f.in, body)
		return kind, body, err
	}
}

// frameWriter writes frames to a program. It is safe for concurrent use.
type frameWriter struct {
	mu sync.Mutex
	to *os.File
}

func (w *frameWriter) send(kind byte, parts ...[]byte) error {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	frame := make([]byte, 0, frameHead+size)
	frame = binary.LittleEndian.AppendUint32(append(frame, kind), uint32(size))
	for _, p := range parts {
		frame = append(frame, p...)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.to.Write(frame); err != nil {
		return fmt.Errorf("send to a program: %w", err)
	}
	return nil
}

// use is a program's use of a primitive.
type use struct {
	id, name string
	data     json.RawMessage
}

var errRequest = errors.New("a program's request cannot be read")

// readUse parses the body of a frameRequest: the lengths of the id (1 byte) and of the name
// (u16 LE), id, name, and the data.
func readUse(body []byte) (use, error) {
	if len(body) < 3 {
		return use{}, errRequest
	}
	id, name := int(body[0]), int(binary.LittleEndian.Uint16(body[1:]))
	rest := body[3:]
	if len(rest) < id+name || !json.Valid(rest[id+name:]) {
		return use{}, errRequest
	}
	return use{string(rest[:id]), string(rest[id : id+name]), rest[id+name:]}, nil
}
