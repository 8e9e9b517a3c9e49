package calls

import (
	"unicode/utf8"

	"github.com/locusrun/locus/surfaces"
)

// HeadBytes and TailBytes are how much of each output stream a result shows. The bytes
// between are only counted.
const (
	HeadBytes = 64 << 10
	TailBytes = 64 << 10
)

// outputBuffer keeps the head and the tail of an output stream, and counts all of it.
type outputBuffer struct {
	head  []byte // the first bytes
	tail  []byte // a ring once it is full
	next  int    // where the next byte of the ring goes
	total int64  // bytes written, with those that were cut or skipped
	cut   bool   // bytes are missing after the head
}

// skip counts bytes of the stream that never arrived here.
func (t *outputBuffer) skip(n int64) {
	t.total += n
	t.cut = true
	t.tail, t.next = t.tail[:0], 0
}

func (t *outputBuffer) write(p []byte) {
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

// text returns the kept bytes with invalid UTF-8 replaced, and how much of the stream they
// are; nil if they are all of it.
func (t *outputBuffer) text() (string, *surfaces.Shown) {
	kept := make([]byte, 0, len(t.head)+len(t.tail))
	kept = append(kept, t.head...)
	kept = append(kept, t.tail[t.next:]...)
	kept = append(kept, t.tail[:t.next]...)
	if t.total == int64(len(kept)) {
		return valid(kept), nil
	}
	// A character that the cut has split is left out.
	head, tail := kept[:len(t.head)], kept[len(t.head):]
	head = head[:completeUntil(head)]
	for i := 0; i < utf8.UTFMax-1 && len(tail) > 0 && !utf8.RuneStart(tail[0]); i++ {
		tail = tail[1:]
	}
	return valid(head) + valid(tail), &surfaces.Shown{Shown: int64(len(head) + len(tail)), Total: t.total}
}

// completeUntil returns the length of b without an incomplete character at its end.
func completeUntil(b []byte) int {
	for i := 1; i <= min(utf8.UTFMax-1, len(b)); i++ {
		if at := len(b) - i; utf8.RuneStart(b[at]) {
			if !utf8.FullRune(b[at:]) {
				return at
			}
			break
		}
	}
	return len(b)
}

// valid converts bytes to text. Each byte that is not part of a character becomes U+FFFD.
func valid(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return string([]rune(string(b)))
}
