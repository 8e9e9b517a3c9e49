package gateway

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Cursor is a position in a stream of several nodes' events: the last event sent of each
// node. It is the id of the stream's events.
type Cursor map[string]Position

// Position identifies an event: the run of its node, and its number in that run.
type Position struct {
	Boot int64 `json:"boot"`
	Seq  int64 `json:"seq"`
}

// maxCursor bounds the text of a cursor, in bytes; that is about a hundred nodes.
const maxCursor = 8 << 10

var errCursor = errors.New("it is not NODE.BOOT.SEQ, joined by commas")

// String returns NODE.BOOT.SEQ for each node, joined by commas.
func (c Cursor) String() string {
	var b strings.Builder
	for _, node := range slices.Sorted(maps.Keys(c)) {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s.%d.%d", node, c[node].Boot, c[node].Seq)
	}
	return b.String()
}

// notInNode reports whether no node id contains a character.
func notInNode(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
}

// ParseCursor parses the format of String.
func ParseCursor(text string) (Cursor, error) {
	if len(text) > maxCursor {
		return nil, errCursor
	}
	c := Cursor{}
	for part := range strings.SplitSeq(text, ",") {
		words := strings.Split(part, ".")
		if len(words) != 3 || words[0] == "" || strings.ContainsFunc(words[0], notInNode) {
			return nil, errCursor
		}
		boot, err := strconv.ParseInt(words[1], 10, 64)
		seq, err2 := strconv.ParseInt(words[2], 10, 64)
		if err != nil || err2 != nil || boot < 0 || seq < 0 {
			return nil, errCursor
		}
		c[words[0]] = Position{boot, seq}
	}
	return c, nil
}
