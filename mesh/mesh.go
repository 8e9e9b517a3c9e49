package mesh

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/locusrun/locus/certs"
)

// Mesh is this process's end of the mesh. Safe for concurrent use.
type Mesh struct {
	cfg       Config
	log       *slog.Logger
	id        certs.Identity
	transport *quic.Transport
	listener  *quic.Listener
	joins     *joinLimiter
	codec     *codec

	ctx    context.Context // ends, with ErrClosed, when Close stops waiting for handlers
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // all goroutines of the mesh
	done   chan struct{}  // closed at the end of Close

	mu       sync.Mutex
	links    map[linkKey]*link       // outgoing connections
	layers   map[string]*StreamLayer // by kind
	conns    map[*conn]struct{}      // all connections, of either direction
	accepted int                     // how many of them the peer dialled
	calls    int                     // handlers that run
	gossip   *Gossip
	state    state                     // only ever advances
	wake     chan struct{}             // signalled at each end of a call or connection
	revoked  func(certs.Identity) bool // says which identities are revoked; nil before it is known
}

type state int

const (
	open     state = iota
	draining       // no new data calls from peers
	closing        // no new streams from peers
	closed         // nothing
)

// Open starts the mesh. It takes ownership of cfg.Conn, and closes it if it fails.
func Open(cfg Config) (*Mesh, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		if cfg.Conn != nil {
			err = errors.Join(err, cfg.Conn.Close())
		}
		return nil, err
	}
	socket, err := tolerateSendErrors(cfg.Conn)
	if err != nil {
		return nil, errors.Join(err, cfg.Conn.Close())
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	m := &Mesh{
		cfg: cfg, log: cfg.Log, id: cfg.Credentials.Identity(), joins: newJoinLimiter(), codec: newCodec(),
		ctx: ctx, cancel: cancel, done: make(chan struct{}),
		links: map[linkKey]*link{}, layers: map[string]*StreamLayer{}, conns: map[*conn]struct{}{},
		wake: make(chan struct{}, 1),
	}
	m.transport = &quic.Transport{
		Conn: socket, StatelessResetKey: cfg.ResetKey,
		VerifySourceAddress: func(net.Addr) bool { return m.joins.handshakesBusy(time.Now()) },
	}
	if !cfg.DialOnly {
		m.listener, err = m.transport.Listen(m.serverTLS(), cfg.quic(true))
		if err != nil {
			cancel(err)
			return nil, errors.Join(fmt.Errorf("mesh: %w", err), m.transport.Close(), cfg.Conn.Close())
		}
		m.spawn(func() { m.acceptConns(m.listener) })
	}
	m.spawn(m.maintain)
	m.spawn(func() { Watch(ctx, m.slept) })
	return m, nil
}

// Addr is the address of the UDP socket.
func (m *Mesh) Addr() net.Addr { return m.cfg.Conn.LocalAddr() }

// Identity is who this process is in the mesh.
func (m *Mesh) Identity() certs.Identity { return m.id }

// spawn runs f on a goroutine that Close waits for. It reports whether it did: a closed
// mesh starts nothing.
func (m *Mesh) spawn(f func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == closed {
		return false
	}
	m.wg.Go(f)
	return true
}

// beginCall counts a running handler. It returns false if the mesh refuses calls of that
// class, because it is draining or closing.
func (m *Mesh) beginCall(class Class) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state >= closing || m.state == draining && class == Data {
		return false
	}
	m.calls++
	return true
}

func (m *Mesh) endCall() {
	m.mu.Lock()
	m.calls--
	m.mu.Unlock()
	m.nudge()
}

func (m *Mesh) nudge() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// register adds a new connection. If it must not be used, register closes it and returns
// the reason.
func (m *Mesh) register(c *conn) error {
	code, err := m.admitConn(c)
	if err != nil {
		c.close(code)
		return err
	}
	if old := m.oldestExcess(c); old != nil {
		old.close(codeBusy)
	}
	return nil
}

func (m *Mesh) admitConn(c *conn) (code uint64, refusal error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.state == closed || m.state == closing && !c.dialed:
		return codeDraining, ErrClosed
	case m.revoked != nil && m.revoked(c.peer):
		return codeRevoked, ErrRevoked
	case !c.dialed && m.accepted >= maxAccepted:
		return codeBusy, ErrBusy
	}
	m.conns[c] = struct{}{}
	if !c.dialed {
		m.accepted++
	}
	return codeDone, nil
}

// maxPerMachine bounds the accepted connections of one identity that is not a node.
const maxPerMachine = 4

// oldestExcess returns the oldest connection of a machine that exceeds maxPerMachine, or
// nil. A machine that reconnects may have left dead connections behind, so the oldest is
// the one to close.
func (m *Mesh) oldestExcess(latest *conn) *conn {
	if latest.dialed || latest.peer.Role == certs.RoleNode {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var oldest *conn
	n := 0
	for c := range m.conns {
		if c.dialed || c.peer != latest.peer || c.qc.Context().Err() != nil {
			continue
		}
		n++
		if oldest == nil || c.born.Before(oldest.born) {
			oldest = c
		}
	}
	if n <= maxPerMachine {
		return nil
	}
	return oldest
}

func (m *Mesh) unregister(c *conn) {
	m.mu.Lock()
	if _, ok := m.conns[c]; ok {
		delete(m.conns, c)
		if !c.dialed {
			m.accepted--
		}
	}
	m.mu.Unlock()
	m.nudge()
}

func (m *Mesh) connections() []*conn {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]*conn, 0, len(m.conns))
	for c := range m.conns {
		list = append(list, c)
	}
	return list
}

// SetRevoked closes all connections of identities for which revoked returns true, and uses
// revoked for each new connection from then on. revoked must not block. The credentials
// check revocation during handshakes separately: update them first.
func (m *Mesh) SetRevoked(revoked func(certs.Identity) bool) {
	m.mu.Lock()
	m.revoked = revoked
	m.mu.Unlock()
	for _, c := range m.connections() {
		if revoked(c.peer) {
			c.close(codeRevoked)
		}
	}
}

// slept closes all connections after this machine was suspended: the peers have timed
// them out, or will.
func (m *Mesh) slept(jump time.Duration) {
	m.log.Info("this machine was suspended; closing its connections", "for", jump)
	for _, c := range m.connections() {
		c.close(codeSlept)
	}
}

const (
	maintainEvery = time.Second
	retireAfter   = 30 * time.Second
)

// maintain probes the peers of connections in use, closes idle connections, cancels
// streams that nobody reads, and prunes state of peers that are gone.
func (m *Mesh) maintain() {
	tick := time.NewTicker(maintainEvery)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			for _, c := range m.connections() {
				c.probe(now, m.cfg.KeepAlive)
				c.retireIdle(now.Add(-retireAfter))
				if cut := c.cutStalled(m.cfg.windows.stalled); cut > 0 {
					m.log.Warn("streams cancelled because nobody read them", "peer", c.peer, "streams", cut)
				}
			}
			m.joins.prune(now)
			m.pruneLinks(now)
		case <-m.ctx.Done():
			return
		}
	}
}

// PeerInfo describes one connection.
type PeerInfo struct {
	Peer   certs.Identity
	Addr   net.Addr
	Class  Class // of a connection that was dialled from here
	Dialed bool  // from here
	// RTT is the smoothed round trip time, MinRTT the shortest seen.
	RTT, MinRTT time.Duration
	// Sent and Received count bytes, with what was sent twice.
	Sent, Received uint64
	// Streams counts calls and byte streams that are open.
	Streams int
}

// Peers lists the connections of this moment.
func (m *Mesh) Peers() []PeerInfo {
	var list []PeerInfo
	for _, c := range m.connections() {
		stats := c.qc.ConnectionStats()
		c.mu.Lock()
		streams := len(c.calls) + len(c.layers)
		c.mu.Unlock()
		list = append(list, PeerInfo{
			Peer: c.peer, Addr: c.qc.RemoteAddr(), Class: c.class, Dialed: c.dialed,
			RTT: stats.SmoothedRTT, MinRTT: stats.MinRTT, Sent: stats.BytesSent, Received: stats.BytesReceived, Streams: streams,
		})
	}
	return list
}
