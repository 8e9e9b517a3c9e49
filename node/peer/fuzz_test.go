package peer

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/locusrun/locus/node/calls"
	"github.com/locusrun/locus/surfaces"
)

// Any bytes from another node are either rejected or parsed, and what was parsed can be
// encoded again to the same bytes.
func FuzzParts(f *testing.F) {
	for _, it := range []calls.Item{
		{Stream: surfaces.StreamStdout, Text: []byte("text"), Offset: 7, Next: calls.Mark{Span: 3, At: 11}},
		{Stream: surfaces.StreamStderr, Text: []byte{0xff}, Next: calls.Mark{Span: 1, At: 1}},
		{Event: &surfaces.Event{Kind: surfaces.EventNotify, Text: "half"}, Next: calls.Mark{Span: 2, At: 11}},
	} {
		message, err := appendItem(nil, it)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(message)
		f.Add(append(message, message...))
	}
	f.Add([]byte{})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, message []byte) {
		for len(message) > 0 {
			part, rest, err := cutPart(message)
			if err != nil {
				return
			}
			if len(part)+len(rest) >= len(message) {
				t.Fatal("a part is longer than its message")
			}
			message = rest
			it, err := decodeItem(part)
			if err != nil {
				continue
			}
			again, err := appendItem(nil, it)
			if err != nil {
				t.Fatal(err)
			}
			part, _, err = cutPart(again)
			if err != nil {
				t.Fatal(err)
			}
			back, err := decodeItem(part)
			if err != nil {
				t.Fatal(err)
			}
			if it.Event == nil && !bytes.Equal(back.Text, it.Text) || it.Event != nil && !reflect.DeepEqual(back.Event, it.Event) || back.Next != it.Next || back.Offset != it.Offset {
				t.Fatalf("read %+v, wrote and read again %+v", it, back)
			}
		}
	})
}
