package mesh

import (
	"sync"

	"github.com/quic-go/quic-go"
)

// creditBatch is how many ended streams are collected before their credit is returned to
// the peer. Each holds 2 KiB until then.
const creditBatch = 16

// credit returns stream credit to a peer in batches. QUIC announces credit in a packet
// that the peer has to acknowledge, so returning it after each stream would double the
// packets of a short call from two to four.
//
// Credit is withheld only from a peer that has more than half of its limit left.
type credit struct {
	limit int // streams that the peer may have open

	mu    sync.Mutex
	open  int            // streams that have not ended
	ended []*quic.Stream // ended streams whose credit is withheld
}

// begin counts a stream that the peer has opened, and returns how many are open now.
func (c *credit) begin() (open int) {
	c.mu.Lock()
	c.open++
	open = c.open
	due := c.due()
	c.mu.Unlock()
	release(due)
	return open
}

// end counts a stream that has been served.
func (c *credit) end(qs *quic.Stream) {
	c.mu.Lock()
	c.open--
	c.ended = append(c.ended, qs)
	due := c.due()
	c.mu.Unlock()
	release(due)
}

// due removes and returns the streams whose credit is to be returned now. Called with the
// lock held.
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
