package peer

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	fastjson "github.com/segmentio/encoding/json"

	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/node/calls"
	"github.com/locusrun/locus/surfaces"
)

// A call is reported as a sequence of messages, each of one or more parts. The first byte
// of a part is its kind. Append only.
const (
	kindStdout byte = 1 // span, at, offset, bytes
	kindStderr byte = 2
	kindEvent  byte = 3 // span, at, event as JSON
	kindEnd    byte = 4 // end as JSON
)

// appendItem appends an item to a message, as a part.
func appendItem(message []byte, it calls.Item) ([]byte, error) {
	kind := kindStdout
	body := it.Text
	switch {
	case it.Event != nil:
		kind = kindEvent
		var err error
		if body, err = json.Marshal(it.Event); err != nil {
			return nil, err
		}
	case it.Stream == surfaces.StreamStderr:
		kind = kindStderr
	}
	b := append(make([]byte, 0, 1+3*binary.MaxVarintLen64), kind)
	b = binary.AppendUvarint(b, uint64(it.Next.Span))
	b = binary.AppendUvarint(b, uint64(it.Next.At))
	if it.Event == nil {
		b = binary.AppendUvarint(b, uint64(it.Offset))
	}
	return append(appendPart(message, len(b)+len(body), b), body...), nil
}

// appendPart appends the length of a part and its first bytes to a message.
func appendPart(message []byte, length int, begin []byte) []byte {
	return append(binary.AppendUvarint(message, uint64(length)), begin...)
}

// cutPart splits the first part off a message.
func cutPart(message []byte) (part, rest []byte, err error) {
	length, n := binary.Uvarint(message)
	if n <= 0 || length > uint64(len(message)-n) {
		return nil, nil, fmt.Errorf("%w: not a part of a message", mesh.ErrProtocol)
	}
	return message[n : n+int(length)], message[n+int(length):], nil
}

// decodeItem parses a part of kindStdout, kindStderr or kindEvent.
func decodeItem(b []byte) (calls.Item, error) {
	bad := fmt.Errorf("%w: not an item of a feed", mesh.ErrProtocol)
	if len(b) == 0 {
		return calls.Item{}, bad
	}
	var it calls.Item
	kind, rest := b[0], b[1:]
	number := func() int64 {
		v, n := binary.Uvarint(rest)
		if n <= 0 || v > 1<<62 {
			rest = nil
			return -1
		}
		rest = rest[n:]
		return int64(v)
	}
	span, at := number(), number()
	if span < 0 || at < 0 {
		return it, bad
	}
	it.Next = calls.Mark{Span: int(span), At: at}
	switch kind {
	case kindStdout, kindStderr:
		it.Stream = surfaces.StreamStdout
		if kind == kindStderr {
			it.Stream = surfaces.StreamStderr
		}
		if it.Offset = number(); it.Offset < 0 {
			return it, bad
		}
		it.Text = rest
	case kindEvent:
		it.Event = new(surfaces.Event)
		if err := fastjson.Unmarshal(rest, it.Event); err != nil {
			return it, fmt.Errorf("%w: %w", bad, err)
		}
	default:
		return it, bad
	}
	return it, nil
}
