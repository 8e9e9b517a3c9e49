package mesh

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// A frame is its kind (1 byte), the length of its body (4 bytes, big endian) and the body.
const (
	frameMessage    = 1 // the body is the message
	frameCompressed = 2 // the body is the message as one zstd frame
	frameError      = 3 // the body is an Error; nothing follows
)

const (
	// MaxFrame is the size of the largest message, in bytes. SendLong splits larger ones.
	MaxFrame = 1 << 20

	frameHead = 5
	// maxErrorText bounds code and message of an Error, with their lengths. An error frame
	// may have MaxFrame bytes of data beside them.
	maxErrorText = 64 << 10
	maxBody      = MaxFrame + maxErrorText
	compressFrom = 8 << 10 // smaller messages are not compressed
	// growFrom is the largest buffer that is allocated at once for a body of the length
	// that the peer announces. A larger body's buffer grows as its bytes arrive.
	growFrom = 64 << 10
)

// codec compresses and decompresses the messages of one mesh. Encoder and decoder are made
// at their first use. A nil codec does not compress, and rejects compressed frames.
type codec struct {
	encoder func() *zstd.Encoder
	decoder func() *zstd.Decoder
}

func newCodec() *codec {
	return &codec{
		encoder: sync.OnceValue(func() *zstd.Encoder {
			e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(MaxFrame))
			if err != nil {
				panic(err) // the options are constants
			}
			return e
		}),
		decoder: sync.OnceValue(func() *zstd.Decoder {
			d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(MaxFrame), zstd.WithDecoderMaxWindow(MaxFrame))
			if err != nil {
				panic(err) // the options are constants
			}
			return d
		}),
	}
}

// appendMessage appends the frame of a message of at most MaxFrame bytes. It compresses
// the message if that is large and shrinks by an eighth at least.
func (c *codec) appendMessage(b, message []byte) []byte {
	start := len(b)
	if c != nil && len(message) >= compressFrom {
		b = append(b, frameCompressed, 0, 0, 0, 0)
		b = c.encoder().EncodeAll(message, b)
		if size := len(b) - start - frameHead; size <= len(message)/8*7 {
			binary.BigEndian.PutUint32(b[start+1:], uint32(size))
			return b
		}
		b = b[:start]
	}
	b = append(b, frameMessage)
	b = binary.BigEndian.AppendUint32(b, uint32(len(message)))
	return append(b, message...)
}

// appendError appends the frame of an error. Too long text is cut. An error with too much
// data is replaced by one that says so.
func appendError(b []byte, e *Error) []byte {
	code, message, data := e.Code, e.Message, e.Data
	if len(data) > MaxFrame {
		code, message, data = CodeInternal, fmt.Sprintf("the data of error %.100q has %d bytes", e.Code, len(e.Data)), nil
	}
	code = code[:min(len(code), 255)]
	message = message[:min(len(message), maxErrorText-512)]
	size := binary.MaxVarintLen32*2 + len(code) + len(message) + len(data)
	body := make([]byte, 0, size)
	body = binary.AppendUvarint(body, uint64(len(code)))
	body = append(body, code...)
	body = binary.AppendUvarint(body, uint64(len(message)))
	body = append(body, message...)
	body = append(body, data...)
	b = append(b, frameError)
	b = binary.BigEndian.AppendUint32(b, uint32(len(body)))
	return append(b, body...)
}

func parseError(body []byte) (*Error, error) {
	code, rest, ok := cutString(body)
	if !ok || code == "" {
		return nil, fmt.Errorf("%w: error frame without a code", ErrProtocol)
	}
	message, rest, ok := cutString(rest)
	if !ok {
		return nil, fmt.Errorf("%w: error frame without a message", ErrProtocol)
	}
	e := &Error{Code: code, Message: message}
	if len(rest) > 0 {
		e.Data = rest
	}
	return e, nil
}

func cutString(b []byte) (s string, rest []byte, ok bool) {
	n, used := binary.Uvarint(b)
	if used <= 0 || n > uint64(len(b)-used) {
		return "", nil, false
	}
	return string(b[used : used+int(n)]), b[used+int(n):], true
}

// readFrame reads the next frame and returns its message. Its error is io.EOF at an end
// between frames, the peer's *Error, one that wraps ErrProtocol, or one of the reader.
func (c *codec) readFrame(r io.Reader) ([]byte, error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, cutShort(err)
	}
	kind, size := head[0], binary.BigEndian.Uint32(head[1:])
	if kind < frameMessage || kind > frameError || kind == frameCompressed && c == nil {
		return nil, fmt.Errorf("%w: frame of kind %d", ErrProtocol, kind)
	}
	if size > maxBody || size > MaxFrame && kind != frameError {
		return nil, fmt.Errorf("%w: frame of %d bytes", ErrProtocol, size)
	}
	body, err := readBody(r, int(size))
	if err != nil {
		return nil, err
	}
	switch kind {
	case frameMessage:
		return body, nil
	case frameCompressed:
		message, err := c.decoder().DecodeAll(body, nil)
		if err != nil {
			return nil, fmt.Errorf("%w: compressed frame: %w", ErrProtocol, err)
		}
		if len(message) > MaxFrame {
			return nil, fmt.Errorf("%w: compressed frame of %d bytes", ErrProtocol, len(message))
		}
		return message, nil
	default:
		told, err := parseError(body)
		if err != nil {
			return nil, err
		}
		return nil, told
	}
}

func readBody(r io.Reader, size int) ([]byte, error) {
	if size <= growFrom {
		body := make([]byte, size)
		if _, err := io.ReadFull(r, body); err != nil {
			return nil, cutShort(noEOF(err))
		}
		return body, nil
	}
	var b bytes.Buffer
	if _, err := io.CopyN(&b, r, int64(size)); err != nil {
		return nil, cutShort(noEOF(err))
	}
	return b.Bytes(), nil
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// cutShort turns the end of the stream within a frame into ErrProtocol.
func cutShort(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: end within a frame", ErrProtocol)
	}
	return err
}
