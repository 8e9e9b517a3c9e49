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
	born   time.Time // when the handshake was done
	codec  *codec

	mu       sync.Mutex
	calls    map[*Stream]struct{} // streams that are open
	layers   map[*byteStream]struct{}
	draining bool      // no new streams; it is closed with its last call
	idle     time.Time // when the last stream ended
	probed   time.Time // when the peer was last probed
}

func (m *Mesh) newConn(qc *quic.Conn, peer certs.Identity, dialed bool, class Class) *conn {
	now := time.Now()
	return &conn{
		qc: qc, peer: peer, dialed: dialed, class: class, born: now, idle: now, codec: m.codec,
		calls: map[*Stream]struct{}{}, layers: map[*byteStream]struct{}{},
	}
}

// usable reports whether new streams may be opened.
func (c *conn) usable() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.draining && c.qc.Context().Err() == nil
}

func (c *conn) close(code uint64) {
	// CloseWithError never fails.
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

// emptied records the time when the last stream ended, and reports whether the connection
// is to be closed now. Called with the lock held.
func (c *conn) emptied() bool {
	if len(c.calls)+len(c.layers) == 0 {
		c.idle = time.Now()
	}
	return c.draining && c.dialed && len(c.calls) == 0
}

// drain lets a dialled connection take no new streams and closes it with its last call.
// Byte streams do not keep it open: they may never end.
func (c *conn) drain() {
	c.mu.Lock()
	c.draining = true
	last := c.emptied()
	c.mu.Unlock()
	if last {
		c.close(codeDone)
	}
}

// probe sends a packet on a dialled connection that has streams. A peer that has restarted
// does not know the connection and answers with a stateless reset, which ends the streams
// at once. QUIC's own keep-alive packets are too short to be answered with a reset.
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
		return // the connection is broken, or has no stream credit because it is busy
	}
	if _, err = qs.Write(header{kind: kindProbe, name: probeName}.append(nil)); err == nil {
		err = qs.Close()
	}
	qs.CancelRead(codeDone)
	if err != nil {
		qs.CancelWrite(codeDone)
	}
}

// retireIdle closes a dialled connection that has had no stream since before.
func (c *conn) retireIdle(before time.Time) {
	c.mu.Lock()
	retire := c.dialed && len(c.calls)+len(c.layers) == 0 && c.idle.Before(before)
	if retire {
		c.draining = true
	}
	c.mu.Unlock()
	if retire {
		c.close(codeDone)
	}
}

// cutStalled cancels streams that were unread at this check and at the one before, except
// for limit of them. So unread streams never fill the connection's window.
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
		if s.stalledSinceLastCheck() {
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
