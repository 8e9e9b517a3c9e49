package client

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestEventReader(t *testing.T) {
	for _, row := range []struct {
		name, in, want string
		end            error
	}{
		{"plain", "event: a\nid: 1\ndata: x\n\n", "a|1|x;", io.EOF},
		{"carriage returns", "event: a\r\ndata: x\r\n\r\n", "a||x;", io.EOF},
		{"several data lines", "data: x\ndata: y\ndata\n\n", "||x\ny\n;", io.EOF},
		{"only one space goes", "data:  x\ndata:y\n\n", "|| x\ny;", io.EOF},
		{"comments and unknown fields", ": beat\n\nretry: 3\n\ndata: x\n\n", "||x;", io.EOF},
		{"an event without data is none", "event: a\n\ndata: x\n\n", "||x;", io.EOF},
		{"cut in the event", "data: x\n\nevent: a\ndata: y\n", "||x;", io.ErrUnexpectedEOF},
		{"cut in the line", "data: x\n\nda", "||x;", io.ErrUnexpectedEOF},
		{"too long", "data: " + strings.Repeat("x", 200) + "\n\n", "", errEventTooLong},
		{"too long over lines", strings.Repeat("data: 0123456789\n", 20) + "\n", "", errEventTooLong},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(row.in), iotest.OneByteReader(strings.NewReader(row.in))} {
				got, err := readAll(newEventReader(r, 100))
				if got != row.want || !errors.Is(err, row.end) {
					t.Errorf("%q %v, want %q %v", got, err, row.want, row.end)
				}
			}
		})
	}
}

func readAll(e *eventReader) (string, error) {
	var b strings.Builder
	for {
		ev, err := e.next()
		if err != nil {
			return b.String(), err
		}
		fmt.Fprintf(&b, "%s|%s|%s;", ev.name, ev.id, ev.data)
	}
}

// Reading must not depend on how the bytes arrive, and must always end.
func FuzzEventReader(f *testing.F) {
	f.Add("event: a\nid: 1\ndata: x\n\n")
	f.Add("data: x\r\n\r\n: c\n\ndata")
	f.Fuzz(func(t *testing.T, in string) {
		whole, errWhole := readAll(newEventReader(strings.NewReader(in), 64))
		slow, errSlow := readAll(newEventReader(iotest.OneByteReader(strings.NewReader(in)), 64))
		if whole != slow || errWhole.Error() != errSlow.Error() {
			t.Errorf("%q %v at once, %q %v byte by byte", whole, errWhole, slow, errSlow)
		}
	})
}
