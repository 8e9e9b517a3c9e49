package peer

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/node/calls"
	"github.com/locusrun/locus/surfaces"
)

// The kinds of messages in a feed, in their first byte. Append only.
const (
	kindStdout byte = 1 // span, at, offset, bytes
	kindStderr byte = 2
	kindEvent  byte = 3 // span, at, event as JSON
	kindEnd    byte = 4 // end as JSON
	kindWhole  byte = 5 // the whole output as a result in JSON, when it was asked for
)

func encodeItem(it calls.Item) ([]byte, error) {
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
	b := make([]byte, 0, len(body)+1+3*binary.MaxVarintLen64)
	b = append(b, kind)
	b = binary.AppendUvarint(b, uint64(it.Next.Span))
	b = binary.AppendUvarint(b, uint64(it.Next.At))
	if it.Event == nil {
		b = binary.AppendUvarint(b, uint64(it.Offset))
	}
	return append(b, body...), nil
}

// decodeItem takes a message of kindStdout, kindStderr or kindEvent.
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
		if err := json.Unmarshal(rest, it.Event); err != nil {
			return it, fmt.Errorf("%w: %w", bad, err)
		}
	default:
		return it, bad
	}
	return it, nil
}
