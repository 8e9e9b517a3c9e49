package agentlink

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/surfaces"
)

// A machine reports a call as a sequence of items, numbered from 1. An item is its kind (1
// byte), its number (varint) and a body. Append only.
const (
	itemStarted byte = 1 // the code has started
	itemStdout  byte = 2 // offset in the stream as a varint, bytes
	itemStderr  byte = 3
	itemEvent   byte = 4 // a surfaces.Event in JSON
	itemUse     byte = 5 // a use in JSON
	itemEnd     byte = 6 // a surfaces.Result in JSON
)

// item is one of these.
type item struct {
	kind   byte
	number uint64
	offset int64 // of the output in its stream
	body   []byte
}

// use is a call of a primitive by the code.
type use struct {
	Seq  string          `json:"seq"`
	Name string          `json:"name"`
	Data json.RawMessage `json:"data,omitempty"`
}

// stream returns the name of the output stream, or "" if the item is not output.
func (it *item) stream() string {
	switch it.kind {
	case itemStdout:
		return surfaces.StreamStdout
	case itemStderr:
		return surfaces.StreamStderr
	}
	return ""
}

// headOfItem bounds the size of an item without its body, in bytes.
const headOfItem = 1 + 2*binary.MaxVarintLen64

func (it *item) encode() []byte {
	b := append(make([]byte, 0, headOfItem+len(it.body)), it.kind)
	b = binary.AppendUvarint(b, it.number)
	if it.stream() != "" {
		b = binary.AppendUvarint(b, uint64(it.offset))
	}
	return append(b, it.body...)
}

// decodeItem parses an item. It does not validate the body.
func decodeItem(b []byte) (item, error) {
	bad := fmt.Errorf("%w: not an item of a call", mesh.ErrProtocol)
	if len(b) == 0 || b[0] < itemStarted || b[0] > itemEnd {
		return item{}, bad
	}
	it := item{kind: b[0]}
	number, n := binary.Uvarint(b[1:])
	if n <= 0 || number == 0 || number > 1<<62 {
		return item{}, bad
	}
	it.number, it.body = number, b[1+n:]
	if it.stream() != "" {
		offset, n := binary.Uvarint(it.body)
		if n <= 0 || offset > 1<<62 {
			return item{}, bad
		}
		it.offset, it.body = int64(offset), it.body[n:]
	}
	if it.kind != itemEnd && len(it.body) > maxSmall {
		return item{}, mesh.ErrTooLarge
	}
	return it, nil
}
