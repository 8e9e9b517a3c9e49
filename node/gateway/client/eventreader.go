package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// wireEvent is one event of a text/event-stream as it was sent.
type wireEvent struct {
	name string
	id   string
	data []byte
}

var errEventTooLong = errors.New("an event of the stream is longer than the client takes")

// eventReader reads server-sent events as the HTML standard defines them.
type eventReader struct {
	r    *bufio.Reader
	max  int
	line []byte
}

func newEventReader(r io.Reader, max int) *eventReader {
	return &eventReader{r: bufio.NewReaderSize(r, 64<<10), max: max}
}

// next returns the next complete event. The error is io.EOF at the end of the stream, and
// io.ErrUnexpectedEOF if the stream ends within an event.
func (e *eventReader) next() (wireEvent, error) {
	var ev wireEvent
	started, hasData := false, false
	for {
		line, err := e.readLine()
		if err != nil {
			if errors.Is(err, io.EOF) && (started || len(line) > 0) {
				err = io.ErrUnexpectedEOF
			}
			return wireEvent{}, err
		}
		if len(line) == 0 {
			if hasData {
				return ev, nil
			}
			ev, started = wireEvent{}, false
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "": // a comment, such as the heartbeat
		case "event":
			ev.name, started = string(value), true
		case "id":
			ev.id, started = string(value), true
		case "data":
			if hasData {
				ev.data = append(ev.data, '\n')
			}
			if len(ev.data)+len(value) > e.max {
				return wireEvent{}, errEventTooLong
			}
			ev.data, started, hasData = append(ev.data, value...), true, true
		}
	}
}

// readLine returns a line without its end. The slice is valid until the next call.
func (e *eventReader) readLine() ([]byte, error) {
	e.line = e.line[:0]
	for {
		part, err := e.r.ReadSlice('\n')
		if len(e.line)+len(part) > e.max+16 {
			return nil, errEventTooLong
		}
		e.line = append(e.line, part...)
		switch {
		case err == nil:
			return bytes.TrimSuffix(bytes.TrimSuffix(e.line, []byte("\n")), []byte("\r")), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return e.line, err
		}
	}
}
