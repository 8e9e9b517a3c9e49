package calls

import (
	"context"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// Mark is a place in what a call has said. The zero value is the beginning.
type Mark struct {
	Span int   `json:"span"`
	At   int64 `json:"at"`
}

// Item is one thing that a call said, as it said it: an event, or bytes of a
// stream. Offset is how many bytes of the stream came before Text; where that is
// more than a reader has had, the bytes between are no longer held.
type Item struct {
	Stream string
	Text   []byte
	Offset int64
	Event  *surfaces.Event
	// Next is where a reader goes on that has had the item.
	Next Mark
}

// linger is how long a feed waits with the news that a call has begun. Most calls are
// short, and all of one then goes in one message.
const linger = 2 * time.Millisecond

// Feed tells what the call has said from a mark on and goes on with what comes, as
// much at a time as there is. It returns nil when the call has ended and all was
// told, the last of it with last set. Otherwise it returns tell's first error, or
// the cause of ctx.
func (r *Record) Feed(ctx context.Context, from Mark, tell func(items []Item, last bool) error) error {
	c := cursor{span: from.Span, at: from.At}
	return r.read(ctx, &c, linger, func(pieces []piece, last bool) error {
		var items []Item
		for _, p := range pieces {
			if p.gap == 0 { // where there is a gap, the next item's offset tells
				items = append(items, Item{Stream: p.stream, Text: p.text, Offset: p.base, Event: p.event, Next: p.next})
			}
		}
		return tell(items, last)
	})
}
