package mesh

import (
	"sync"

	"github.com/quic-go/quic-go"
)

// creditBatch is how many streams of a peer may have ended before their credit is given
// back to it. Each takes 2 KiB until then.
const creditBatch = 16

// credit gives a peer its stream credit back, for many streams at a time. QUIC announces
// credit in a packet that the peer has to acknowledge, so giving it back after each
// stream would make a call of two packets one of four.
//
// Credit is kept only from a peer that has more than half of its own left.
type credit struct {
	limit int // of streams that the peer may have open

	mu    sync.Mutex
	open  int            // streams of the peer that have not ended
	ended []*quic.Stream // whose credit is kept
}

// begin counts a stream that the peer has opened, and says how many it has open now.
func (c *credit) begin() (open int) {
	c.mu.Lock()
	c.open++
	open = c.open
	due := c.due()
	c.mu.Unlock()
	release(due)
	return open
}

// end notes that a stream has been served.
func (c *credit) end(qs *quic.Stream) {
	c.mu.Lock()
	c.open--
	c.ended = append(c.ended, qs)
	due := c.due()
	c.mu.Unlock()
	release(due)
}

// due takes the streams whose credit is to be given back now. Called with the lock held.
func (c *credit) due() []*quic.Stream {
	if len(c.ended) < creditBatch && c.open+len(c.ended) < c.limit/2 {
		return nil
	}
	due := c.ended
	c.ended = nil
	return due
}

func release(streams []*quic.Stream) {
	for _, qs := range streams {
		qs.ReleaseStreamCredit()
	}
}
