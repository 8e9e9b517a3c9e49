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

// Frames between the agent and Python's main module, over two pipes.
//
// From the program: token, kind (1 byte), length (u32 LE), body. To the program: the same
// without the token. Code in the same process can write to any descriptor, so what does
// not begin with the token is skipped.
const (
	tokenSize = 16
	frameHead = 5
	// maxFrame is the longest body. It is above all bounds of the worker's modules.
	maxFrame = 48 << 20
)

// The kinds of frames.
const (
	frameHello   = 'H' // from the program: it waits to be told what to run
	frameEvent   = 'E' // from the program: JSON of a notify or a display
	frameRequest = 'P' // from the program: a use of a primitive
	frameDone    = 'D' // from the program: JSON of the report
	frameRun     = 'R' // to the program: JSON of what to run
	frameAnswer  = 'A' // to the program: the outcome of a use
)

// frames reads what a program sends.
type frames struct {
	in    *bufio.Reader
	token []byte
}

func newFrames(from io.Reader, token []byte) *frames {
	return &frames{bufio.NewReaderSize(from, 64<<10), token}
}

// next gives the next frame. At the end of the pipe the error is io.EOF or that of a
// deadline.
func (f *frames) next() (kind byte, body []byte, err error) {
	for {
		head, err := f.in.Peek(tokenSize + frameHead)
		if err != nil {
			return 0, nil, err
		}
		size := binary.LittleEndian.Uint32(head[tokenSize+1:])
		if !bytes.Equal(head[:tokenSize], f.token) || size > maxFrame {
			_, _ = f.in.Discard(1) // it was just looked at
			continue
		}
		kind = head[tokenSize]
		_, _ = f.in.Discard(len(head))
		body = make([]byte, size)
		_, err = io.ReadFull(f.in, body)
		return kind, body, err
	}
}

// toProgram writes frames to a program. It may be used at the same time.
type toProgram struct {
	mu sync.Mutex
	to *os.File
}

func (w *toProgram) send(kind byte, parts ...[]byte) error {
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

// use is one request of the program.
type use struct {
	id, name string
	data     json.RawMessage
}

var errRequest = errors.New("a program's request cannot be read")

// readUse decodes a request: how long the id (1 byte) and the name (u16 LE) are that
// follow, and then the data.
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
