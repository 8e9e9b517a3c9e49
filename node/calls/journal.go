package calls

import (
	"cmp"
	"slices"

	"github.com/locusrun/locus/surfaces"
)

// Bounds on what a journal retains for the followers of a call.
const (
	// journalBytes bounds the retained output of both streams together, in bytes.
	journalBytes = 1 << 20
	// journalEvents bounds the number of retained events.
	journalEvents = 1024
	// journalEventBytes bounds their data, in bytes.
	journalEventBytes = 16 << 20
)

// span is a contiguous range of output of one stream, or an event at an output offset.
type span struct {
	from   int64 // output offset, both streams counted together
	to     int64
	stream string
	base   int64           // bytes of the stream before the span
	event  *surfaces.Event // nil for output
}

func (s *span) weight() int {
	if s.event == nil {
		return 0
	}
	n := len(s.event.Data) + len(s.event.Text)
	if s.event.Display != nil {
		n += len(s.event.Display.Data)
	}
	return n
}

// journal retains the latest output and events of a call, in the order in which they came.
// Output is in a ring buffer; spans say which stream each byte belongs to.
type journal struct {
	ring   []byte // grows to journalBytes, then wraps
	total  int64  // bytes of output so far, of both streams together
	stderr int64  // how much of total is stderr
	spans  []span
	first  int // number of the first retained span
	events int // how many of spans are events
	weight int // bytes of their data
	// waiting holds the unanswered primitives whose spans were dropped, in the order of
	// their numbers, because followers must still receive them.
	waiting []waiting
	// open holds the sequence numbers of all unanswered primitives.
	open map[string]bool
}

// waiting is an event that has still to be answered.
type waiting struct {
	number int // number of the span
	span   span
}

func (j *journal) output(stream string, p []byte) {
	from, base := j.total, j.streamBytes(stream)
	j.count(stream, int64(len(p)))
	keep := p
	if len(keep) > journalBytes {
		keep = keep[len(keep)-journalBytes:]
	}
	j.put(j.total-int64(len(keep)), keep)
	if n := len(j.spans); n > 0 && j.spans[n-1].event == nil && j.spans[n-1].stream == stream && j.spans[n-1].to == from {
		j.spans[n-1].to = j.total
	} else {
		j.spans = append(j.spans, span{from: from, to: j.total, stream: stream, base: base})
	}
	j.trim()
}

// streamBytes counts the bytes of a stream so far.
func (j *journal) streamBytes(stream string) int64 {
	if stream == surfaces.StreamStderr {
		return j.stderr
	}
	return j.total - j.stderr
}

func (j *journal) count(stream string, n int64) {
	j.total += n
	if stream == surfaces.StreamStderr {
		j.stderr += n
	}
}

// put writes at an output offset. The ring is allocated as needed, because most calls print
// little.
func (j *journal) put(at int64, p []byte) {
	for len(p) > 0 {
		i := int(at % journalBytes)
		n := min(len(p), journalBytes-i)
		if need := i + n; need > len(j.ring) {
			j.ring = append(j.ring, make([]byte, need-len(j.ring))...)
		}
		copy(j.ring[i:], p[:n])
		at, p = at+int64(n), p[n:]
	}
}

func (j *journal) event(e surfaces.Event) {
	s := span{from: j.total, to: j.total, event: &e}
	if e.Kind == surfaces.EventPrimitive {
		if j.open == nil {
			j.open = make(map[string]bool)
		}
		j.open[e.ID] = true
	}
	j.spans = append(j.spans, s)
	j.events++
	j.weight += s.weight()
	j.trim()
}

// settle records that a primitive was answered.
func (j *journal) settle(seq string) {
	delete(j.open, seq)
	j.waiting = slices.DeleteFunc(j.waiting, func(w waiting) bool { return w.span.event.ID == seq })
}

// oldest is the offset of the first retained output byte.
func (j *journal) oldest() int64 { return max(0, j.total-journalBytes) }

// trim drops spans whose output was overwritten, and the oldest events if there are too many.
func (j *journal) trim() {
	drop := 0
	for drop < len(j.spans)-1 {
		s := &j.spans[drop]
		over := j.events > journalEvents || j.weight > journalEventBytes || len(j.spans)-drop > 8*journalEvents
		if !over && (s.event != nil || s.to > j.oldest()) {
			break
		}
		if s.event != nil {
			j.events--
			j.weight -= s.weight()
			if s.event.Kind == surfaces.EventPrimitive && j.open[s.event.ID] {
				j.waiting = append(j.waiting, waiting{j.first + drop, *s})
			}
		}
		drop++
	}
	clear(j.spans[:drop]) // the backing array stays until an append outgrows it
	j.first += drop
	j.spans = j.spans[drop:]
}

// cursor is a reader's position in a journal.
type cursor struct {
	span    int               // number of the next span
	at      int64             // next output offset
	pending map[string][]byte // by stream: the first bytes of a character whose rest has not arrived
}

// piece is what a reader gets next: output of one stream, a gap, or an event.
type piece struct {
	stream string
	text   []byte
	base   int64 // bytes of the stream before text
	gap    int64 // bytes that were dropped before they could be read; such a piece has nothing else
	event  *surfaces.Event
	offset int64 // output offset after the piece
	next   Mark  // the position after the piece
}

// readSize bounds one piece of output.
const readSize = 64 << 10

// read returns the next piece and advances the cursor; ok is false if there is nothing new.
// Spans are contiguous, so anything missing between the cursor and the next span is a gap.
func (j *journal) read(c *cursor) (p piece, ok bool) {
	if c.span < j.first {
		at, _ := slices.BinarySearchFunc(j.waiting, c.span, func(w waiting, n int) int { return cmp.Compare(w.number, n) })
		if at < len(j.waiting) {
			w := j.waiting[at]
			c.span = w.number + 1
			return piece{event: w.span.event, offset: max(c.at, w.span.from)}, true
		}
		c.span = j.first
	}
	for c.span-j.first < len(j.spans) {
		s := &j.spans[c.span-j.first]
		if s.from > c.at {
			return c.skip(s.from), true
		}
		if s.event != nil {
			c.span++
			return piece{event: s.event, offset: max(c.at, s.from)}, true
		}
		if c.at >= s.to {
			// The last output span may still grow, so the cursor stays on it.
			if c.span-j.first == len(j.spans)-1 {
				return piece{}, false
			}
			c.span++
			continue
		}
		if old := j.oldest(); c.at < old {
			return c.skip(min(old, s.to)), true
		}
		start, end := c.at, min(s.to, c.at+readSize)
		c.at = end
		return piece{stream: s.stream, text: j.copy(start, end), base: s.base + start - s.from, offset: end}, true
	}
	return piece{}, false
}

func (c *cursor) skip(to int64) piece {
	gap := to - c.at
	c.at = to
	return piece{gap: gap, offset: to}
}

func (j *journal) copy(from, to int64) []byte {
	b := make([]byte, 0, to-from)
	for from < to {
		i := from % journalBytes
		n := min(to-from, journalBytes-i)
		b = append(b, j.ring[i:i+n]...)
		from += n
	}
	return b
}

// completeText returns the next bytes of a stream as text. A character that is incomplete is
// held back until the rest of it arrives.
func (c *cursor) completeText(stream string, b []byte) string {
	if c.pending == nil {
		c.pending = make(map[string][]byte, 2)
	}
	b = append(c.pending[stream], b...)
	cut := completeUntil(b)
	c.pending[stream] = append([]byte(nil), b[cut:]...)
	return valid(b[:cut])
}

// remainder returns the bytes of a character that was never completed.
func (c *cursor) remainder(stream string) string {
	b := c.pending[stream]
	delete(c.pending, stream)
	return valid(b)
}
