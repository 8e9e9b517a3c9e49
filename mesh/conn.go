package mesh

import (
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/locusrun/locus/certs"
)

// conn is one connection to a peer, dialled or accepted, with the streams on it.
type conn struct {
	qc     *quic.Conn
	peer   certs.Identity
	class  Class // of a dialled connection only
	dialed bool
	born   time.Time
	codec  *codec

	mu      sync.Mutex
	calls   map[*Stream]struct{}
	layers  map[*byteStream]struct{}
	leaving bool      // the peer is closing: no new streams, closed with the last call
	idle    time.Time // since when there is no stream
	probed  time.Time // when it was last asked whether the peer still knows it
}

func (m *Mesh) newConn(qc *quic.Conn, peer certs.Identity, dialed bool, class Class) *conn {
	now := time.Now()
	return &conn{
		qc: qc, peer: peer, dialed: dialed, class: class, born: now, idle: now, codec: m.codec,
		calls: map[*Stream]struct{}{}, layers: map[*byteStream]struct{}{},
	}
}

// usable tells whether new streams may be opened.
func (c *conn) usable() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.leaving && c.qc.Context().Err() == nil
}

func (c *conn) close(code uint64) {
	// CloseWithError has no error to give; its second value is for the peer's log.
	_ = c.qc.CloseWithError(quic.ApplicationErrorCode(code), "")
}

func (c *conn) add(s *Stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[s] = struct{}{}
}

func (c *conn) remove(s *Stream) {
	c.mu.Lock()
	delete(c.calls, s)
	last := c.emptied()
	c.mu.Unlock()
	if last {
		c.close(codeDone)
	}
}

func (c *conn) addLayer(b *byteStream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.layers[b] = struct{}{}
}

func (c *conn) removeLayer(b *byteStream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.layers, b)
	c.emptied()
}

// emptied notes the time of the last stream's end, and tells whether the connection
// is to be closed now. Called with the lock held.
func (c *conn) emptied() bool {
	if len(c.calls)+len(c.layers) == 0 {
		c.idle = time.Now()
	}
	return c.leaving && c.dialed && len(c.calls) == 0
}

// leave ends a dialled connection whose peer has said good-bye, with its last call.
// Byte streams do not hold it: they have no end of their own.
func (c *conn) leave() {
	c.mu.Lock()
	c.leaving = true
	last := c.emptied()
	c.mu.Unlock()
	if last {
		c.close(codeDone)
	}
}

// probe asks the peer of a dialled connection, on which somebody waits, whether it still
// knows the connection. A peer that was started anew answers with a reset, and the wait
// is over. QUIC's own signs of life are too short to be answered so.
func (c *conn) probe(now time.Time, every time.Duration) {
	c.mu.Lock()
	due := c.dialed && len(c.calls)+len(c.layers) > 0 && now.Sub(c.probed) >= every
	if due {
		c.probed = now
	}
	c.mu.Unlock()
	if !due {
		return
	}
	qs, err := c.qc.OpenStream()
	if err != nil {
		return // broken already, or so busy that nobody needs to ask
	}
	if _, err = qs.Write(header{kind: kindProbe, name: probeName}.append(nil)); err == nil {
		err = qs.Close()
	}
	qs.CancelRead(codeDone)
	if err != nil {
		qs.CancelWrite(codeDone)
	}
}

// retireIdle closes a dialled connection that had no stream since before.
func (c *conn) retireIdle(before time.Time) {
	c.mu.Lock()
	retire := c.dialed && len(c.calls)+len(c.layers) == 0 && c.idle.Before(before)
	if retire {
		c.leaving = true
	}
	c.mu.Unlock()
	if retire {
		c.close(codeDone)
	}
}

// cutStalled cancels the streams beyond limit that were found unread at the last
// look too, so that unread streams never use up the connection's window.
func (c *conn) cutStalled(limit int) (cut int) {
	c.mu.Lock()
	if len(c.calls) <= limit {
		c.mu.Unlock()
		return 0
	}
	calls := make([]*Stream, 0, len(c.calls))
	for s := range c.calls {
		calls = append(calls, s)
	}
	c.mu.Unlock()

	var stalled []*Stream
	for _, s := range calls {
		if s.unreadSinceLastLook() {
			stalled = append(stalled, s)
		}
	}
	for len(stalled) > limit {
		stalled[0].abort(codeStalled)
		stalled = stalled[1:]
		cut++
	}
	return cut
}
