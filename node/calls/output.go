package calls

import (
	"unicode/utf8"

	"github.com/locusrun/locus/surfaces"
)

// HeadBytes and TailBytes are how much of each output stream a result shows. What
// comes between them is counted and not kept.
const (
	HeadBytes = 64 << 10
	TailBytes = 64 << 10
)

// tape keeps the head and the tail of one output stream, and counts all of it.
type tape struct {
	head  []byte
	tail  []byte // a ring once it is full
	next  int    // where the ring goes on
	total int64
	cut   bool // bytes are missing after the head
}

// skip counts bytes that were written and never came here.
func (t *tape) skip(n int64) {
	t.total += n
	t.cut = true
	t.tail, t.next = t.tail[:0], 0
}

func (t *tape) write(p []byte) {
	t.total += int64(len(p))
	if room := HeadBytes - len(t.head); room > 0 && !t.cut {
		n := min(room, len(p))
		t.head = append(t.head, p[:n]...)
		p = p[n:]
	}
	if len(p) > TailBytes {
		p = p[len(p)-TailBytes:]
	}
	if room := TailBytes - len(t.tail); room > 0 {
		n := min(room, len(p))
		t.tail = append(t.tail, p[:n]...)
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(t.tail[t.next:], p)
		t.next = (t.next + n) % TailBytes
		p = p[n:]
	}
}

// text gives what is kept, with invalid UTF-8 replaced, and how much of the whole
// that is; nil when it is the whole.
func (t *tape) text() (string, *surfaces.Shown) {
	kept := make([]byte, 0, len(t.head)+len(t.tail))
	kept = append(kept, t.head...)
	kept = append(kept, t.tail[t.next:]...)
	kept = append(kept, t.tail[:t.next]...)
	if t.total == int64(len(kept)) {
		return valid(kept), nil
	}
	// Where the middle was cut a character may have been cut too: the two ends are
	// mended apart.
	return valid(kept[:len(t.head)]) + valid(kept[len(t.head):]), &surfaces.Shown{Shown: int64(len(kept)), Total: t.total}
}

// valid gives bytes as text. Each byte that belongs to no character becomes
// U+FFFD.
func valid(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return string([]rune(string(b)))
}
