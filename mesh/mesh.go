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
	doors     *doors
	codec     *codec

	ctx    context.Context // ends, with ErrClosed, when Close has waited enough
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // all goroutines of the mesh
	done   chan struct{}  // closed at the end of Close

	mu       sync.Mutex
	links    map[linkKey]*link
	layers   map[string]*StreamLayer
	conns    map[*conn]struct{}
	accepted int
	calls    int // handlers that run
	gossip   *Gossip
	state    state
	wake     chan struct{} // told of each end of a call or connection
	revoked  func(certs.Identity) bool
}

type state int

const (
	open     state = iota
	draining       // no new data calls from peers
	closing        // no new streams from peers
	closed         // nothing
)

// Open starts to serve and to call. The mesh owns cfg.Conn, in case of an error too.
func Open(cfg Config) (*Mesh, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		if cfg.Conn != nil {
			err = errors.Join(err, cfg.Conn.Close())
		}
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	m := &Mesh{
		cfg: cfg, log: cfg.Log, id: cfg.Credentials.Identity(), doors: newDoors(), codec: newCodec(),
		ctx: ctx, cancel: cancel, done: make(chan struct{}),
		links: map[linkKey]*link{}, layers: map[string]*StreamLayer{}, conns: map[*conn]struct{}{},
		wake: make(chan struct{}, 1),
	}
	m.transport = &quic.Transport{
		Conn: sturdy(cfg.Conn), StatelessResetKey: cfg.ResetKey,
		VerifySourceAddress: func(net.Addr) bool { return m.doors.crowded(time.Now()) },
	}
	if !cfg.DialOnly {
		m.listener, err = m.transport.Listen(m.serverTLS(), cfg.quic(true))
		if err != nil {
			cancel(err)
			return nil, errors.Join(fmt.Errorf("mesh: %w", err), m.transport.Close(), cfg.Conn.Close())
		}
		m.goes(func() { m.acceptConns(m.listener) })
	}
	m.goes(m.tend)
	m.goes(func() { Watch(ctx, m.slept) })
	return m, nil
}

// Addr is the address of the UDP socket.
func (m *Mesh) Addr() net.Addr { return m.cfg.Conn.LocalAddr() }

// Identity is who this process is in the mesh.
func (m *Mesh) Identity() certs.Identity { return m.id }

// goes runs f as one of the mesh's own goroutines, unless the mesh is closed.
func (m *Mesh) goes(f func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == closed {
		return false
	}
	m.wg.Go(f)
	return true
}

// beginCall counts a handler in, unless calls of its class are refused by now.
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

// register takes a new connection in, or closes it and says why not.
func (m *Mesh) register(c *conn) error {
	code, err := m.judge(c)
	if err != nil {
		c.close(code)
		return err
	}
	if old := m.crowding(c); old != nil {
		old.close(codeBusy)
	}
	return nil
}

func (m *Mesh) judge(c *conn) (code uint64, refusal error) {
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

// maxPerMachine is how many connections one identity that is no node may have here.
const maxPerMachine = 4

// crowding gives the oldest connection of a machine that has too many of them: one
// that has come back may have left some behind.
func (m *Mesh) crowding(latest *conn) *conn {
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

// Drop closes all connections of revoked identities at once. The function is kept, and
// asked for each new connection from then on; it must not block. Credentials refuse
// handshakes by a rule of their own: set that first.
func (m *Mesh) Drop(revoked func(certs.Identity) bool) {
	m.mu.Lock()
	m.revoked = revoked
	m.mu.Unlock()
	for _, c := range m.connections() {
		if revoked(c.peer) {
			c.close(codeRevoked)
		}
	}
}

// slept drops all connections after this machine was asleep: peers have given them up,
// or will.
func (m *Mesh) slept(jump time.Duration) {
	m.log.Info("this machine was asleep; dialling anew", "for", jump)
	for _, c := range m.connections() {
		c.close(codeSlept)
	}
}

const (
	tendEvery   = time.Second
	retireAfter = 30 * time.Second
)

// tend asks after peers that somebody waits for, closes connections that nobody uses,
// and cuts streams that nobody reads.
func (m *Mesh) tend() {
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			for _, c := range m.connections() {
				c.probe(now, m.cfg.KeepAlive)
				c.retireIdle(now.Add(-retireAfter))
				if cut := c.cutStalled(m.cfg.windows.stalled); cut > 0 {
					m.log.Warn("streams cut that nobody read", "peer", c.peer, "streams", cut)
				}
			}
			m.doors.forget(now)
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
	RTT    time.Duration
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
			RTT: stats.SmoothedRTT, Sent: stats.BytesSent, Received: stats.BytesReceived, Streams: streams,
		})
	}
	return list
}
