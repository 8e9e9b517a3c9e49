package calls

import (
	"context"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// Mark is a position in the output and events of a call. The zero value is the beginning.
type Mark struct {
	// Span is the number of the next span of the journal, At the output offset there, both
	// streams counted together.
	Span int   `json:"span"`
	At   int64 `json:"at"`
}

// Item is an event of a call, or bytes of one of its output streams. Offset is the number of
// bytes of the stream before Text. If a reader has received fewer, the bytes between were
// dropped.
type Item struct {
	// Stream is "stdout" or "stderr"; empty for an event.
	Stream string
	Text   []byte
	Offset int64
	Event  *surfaces.Event
	// Next is the position after the item.
	Next Mark
}

// coalesceDelay is how long a feed holds back the event that a call has started, so that all
// of a short call fits into one message.
const coalesceDelay = 2 * time.Millisecond

// Stream passes the output and events from a mark on to tell, and continues as more arrives,
// in batches. It returns nil when the call has ended and everything was passed on; last is
// set for the last batch. Otherwise it returns the first error of tell, or the cause of ctx.
func (r *Record) Stream(ctx context.Context, from Mark, tell func(items []Item, last bool) error) error {
	c := cursor{span: from.Span, at: from.At}
	return r.read(ctx, &c, coalesceDelay, func(pieces []piece, last bool) error {
		var items []Item
		for _, p := range pieces {
			if p.gap == 0 { // a gap shows in the offset of the next item
				items = append(items, Item{Stream: p.stream, Text: p.text, Offset: p.base, Event: p.event, Next: p.next})
			}
		}
		return tell(items, last)
	})
}
