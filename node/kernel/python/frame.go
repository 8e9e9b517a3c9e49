package python

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/locusrun/locus/node/kernel"
)

// The kinds of frames from a worker.
const (
	kindHello   = 'H' // ready; hello
	kindDone    = 'D' // the program is over; wireReport
	kindPlain   = 'd' // the program is over and there is little to say; see readPlain
	kindEvent   = 'E' // an event of the running program; wireEvent
	kindRequest = 'P' // a request of the running program to its host; see readRequest
	kindAnswer  = 'A' // the answer to a request; wireAnswer
	kindFailure = 'N' // why a request, or the worker itself, failed
)

// The operations that a worker performs.
const (
	opRun     = 'R' // a program; see runRequest
	opAnswer  = 'P' // the host's answer to the running program; see answerHead
	opRequest = 'J' // anything else, as JSON
)

// Where a frame's body is.
const (
	storeInline = '.'
	storeMemory = '@'
)

// Bounds of the protocol, in bytes except for maxFiles. They must not be below those
// in worker/frames.py.
const (
	tokenSize  = 16
	inlineSize = 8 << 10
	maxBody    = 32 << 20
	packetSize = inlineSize + 4096
	maxFiles   = 8
)

// Flags of a run request.
const (
	flagNewOutput = 1 << iota
	flagStdin
	flagDiff
	flagOneShot
)

// errForged is the error of a packet that the worker did not send.
var errForged = errors.New("a packet without the kernel's token")

// errFrame is the error of a packet that has the token but is not a valid frame.
var errFrame = errors.New("a malformed frame")

// frame is one message from a worker.
type frame struct {
	kind  byte
	body  []byte
	files []*os.File
}

func (f *frame) close() {
	for _, file := range f.files {
		file.Close()
	}
	f.files = nil
}

// parseFrame parses a packet. It takes ownership of the files and closes them on an
// error. The body may share memory with the packet.
func parseFrame(packet, token []byte, files []*os.File) (frame, error) {
	f := frame{files: files}
	if !bytes.HasPrefix(packet, token) {
		f.close()
		return frame{}, errForged
	}
	packet = packet[len(token):]
	if len(packet) < 2 {
		f.close()
		return frame{}, errFrame
	}
	f.kind, f.body = packet[0], packet[2:]
	switch packet[1] {
	case storeInline:
		return f, nil
	case storeMemory:
		if len(f.files) == 0 {
			return frame{}, errFrame
		}
		last := f.files[len(f.files)-1]
		f.files = f.files[:len(f.files)-1]
		body, err := readMemory(last)
		last.Close()
		if err != nil {
			f.close()
			return frame{}, err
		}
		f.body = body
		return f, nil
	}
	f.close()
	return frame{}, errFrame
}

// readMemory reads a body that was sent as a file in memory.
func readMemory(file *os.File) ([]byte, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return nil, fmt.Errorf("read a frame's body: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > maxBody {
		return nil, errFrame
	}
	body := make([]byte, st.Size)
	if _, err := io.ReadFull(io.NewSectionReader(file, 0, st.Size), body); err != nil {
		return nil, fmt.Errorf("read a frame's body: %w", err)
	}
	return body, nil
}

// packet encodes a request. If head and body exceed inlineSize, they go into the
// returned file, which the caller must send as the last one and then close.
func packet(op byte, head, body []byte) ([]byte, *os.File, error) {
	if len(head)+len(body) <= inlineSize {
		p := make([]byte, 0, 2+len(head)+len(body))
		p = append(p, op, storeInline)
		p = append(p, head...)
		return append(p, body...), nil, nil
	}
	whole := make([]byte, 0, len(head)+len(body))
	whole = append(append(whole, head...), body...)
	file, err := kernel.MemoryFile("request", whole)
	if err != nil {
		return nil, nil, err
	}
	return []byte{op, storeMemory}, file, nil
}

// runHead returns the head of a run request: the program's number and its flags. The
// code follows it. The request's files are stdout and stderr if flagNewOutput is set,
// then stdin if flagStdin is set.
func runHead(number uint32, flags byte) []byte {
	return append(binary.LittleEndian.AppendUint32(make([]byte, 0, 5), number), flags)
}

// request is any request to a worker or a zygote except to run a program.
type request struct {
	Op        string   `json:"op"`
	ID        uint64   `json:"id,omitempty"`
	PID       int      `json:"pid,omitempty"`
	Token     string   `json:"token,omitempty"`
	Workspace string   `json:"workspace,omitempty"`
	Cold      bool     `json:"cold,omitempty"`
	Kind      string   `json:"kind,omitempty"`
	Nested    bool     `json:"nested,omitempty"`
	Confine   bool     `json:"confine,omitempty"`
	Folders   []string `json:"folders,omitempty"`
	View      int      `json:"view,omitempty"`
	Detail    string   `json:"detail,omitempty"`
	Message   any      `json:"message,omitempty"`
	Program   int      `json:"program,omitempty"`
}

// wireAnswer is the answer to a request.
type wireAnswer struct {
	ID    uint64          `json:"id"`
	PID   int             `json:"pid"`
	Error string          `json:"error"`
	Errno int             `json:"errno"`
	Stack string          `json:"stack"`
	State json.RawMessage `json:"state"`
	// Serialised says of a fork that the copy is read again in a fresh interpreter.
	Serialised bool `json:"serialised"`
}
