package mesh

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/locusrun/locus/certs"
)

// linkKey names one outgoing connection. Gossip joins by address before it knows
// whom it will find there; then peer is empty.
type linkKey struct {
	peer  string
	addr  string
	class Class
}

// link keeps one outgoing connection: dialled when first needed, by one dial at a time,
// and anew when it has broken. After a failure it rests for a random time, in which
// calls fail at once rather than each wait for the peer's silence.
type link struct {
	m   *Mesh
	key linkKey

	mu      sync.Mutex
	conn    *conn
	dialing *dialing
	fails   int
	rest    time.Time // no dial before
	failed  error     // why
	at      string    // the address of the connection, or else of the failure
	used    time.Time // when it was last asked for a connection
}

// forgotten tells whether the link has nothing that is worth keeping.
func (l *link) forgotten(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn == nil && l.dialing == nil && now.After(l.rest) && now.Sub(l.used) > retireAfter
}

// dialing is one dial that any number of calls wait for.
type dialing struct {
	done chan struct{}
	conn *conn
	err  error
}

const (
	backoffFirst = 100 * time.Millisecond
	backoffMost  = 3 * time.Second
	// steadyAfter is the age at which a connection counts as one that works.
	steadyAfter = 3 * time.Second
)

// backoff draws a wait between nothing and a bound that doubles with each failure.
func backoff(fails int) time.Duration {
	most := backoffMost
	if fails < 8 {
		most = min(most, backoffFirst<<fails)
	}
	return rand.N(most)
}

func (m *Mesh) link(key linkKey) *link {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.links[key]
	if l == nil {
		l = &link{m: m, key: key}
		m.links[key] = l
	}
	return l
}

// use gives a connection to open a stream on. An error says that none could be had
// within ctx; it is not wrapped yet.
func (l *link) use(ctx context.Context, hint string) (*conn, error) {
	addr := l.address(hint)
	l.mu.Lock()
	l.used = time.Now()
	if c := l.conn; c != nil {
		usable := c.usable()
		if usable && (addr == l.at || addr == "") {
			l.mu.Unlock()
			return c, nil
		}
		l.conn = nil
		if usable {
			// The peer has moved. Who still talks to it over there may go on.
			defer c.leave()
		}
	}
	d := l.dialing
	if d == nil {
		if err := l.mayDial(addr); err != nil {
			l.mu.Unlock()
			return nil, err
		}
		d = &dialing{done: make(chan struct{})}
		if !l.m.goes(func() { l.dial(d, addr) }) {
			l.mu.Unlock()
			return nil, ErrClosed
		}
		l.dialing = d
	}
	l.mu.Unlock()
	select {
	case <-d.done:
		return d.conn, d.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (l *link) address(hint string) string {
	if l.key.addr != "" {
		return l.key.addr
	}
	if addr := l.m.cfg.Locate(l.key.peer); addr != "" {
		return addr
	}
	return hint
}

func (l *link) mayDial(addr string) error {
	if addr == "" {
		return ErrUnknownPeer
	}
	if addr == l.at && time.Now().Before(l.rest) {
		return l.failed
	}
	return nil
}

func (l *link) dial(d *dialing, addr string) {
	ctx, cancel := context.WithTimeoutCause(l.m.ctx, l.m.cfg.Handshake, &quic.HandshakeTimeoutError{})
	defer cancel()
	c, err := l.m.dial(ctx, l.key, addr)
	l.mu.Lock()
	l.dialing = nil
	if err != nil {
		l.note(addr, err)
	} else {
		l.conn = c
		l.at = addr
	}
	l.mu.Unlock()
	d.conn, d.err = c, err
	close(d.done)
	if c != nil && !l.m.goes(func() { l.watch(c) }) {
		c.close(codeDone)
	}
}

// pruneLinks forgets links that nobody uses, so that peers of old take no room.
func (m *Mesh) pruneLinks(now time.Time) {
	m.mu.Lock()
	links := maps.Clone(m.links)
	m.mu.Unlock()
	for key, l := range links {
		if l.forgotten(now) {
			m.mu.Lock()
			delete(m.links, key)
			m.mu.Unlock()
		}
	}
}

// note remembers a failure. Called with the lock held.
func (l *link) note(addr string, err error) {
	if addr != l.at {
		l.fails = 0
	}
	l.at, l.failed = addr, err
	l.rest = time.Now().Add(backoff(l.fails))
	l.fails++
}

// watch waits for the end of a connection, or for the peer's word that it is closing,
// which is the opening of a stream in the other direction.
func (l *link) watch(c *conn) {
	if _, err := c.qc.AcceptUniStream(c.qc.Context()); err == nil {
		l.forget(c)
		c.leave()
	}
	<-c.qc.Context().Done()
	l.forget(c)
	l.m.unregister(c)

	err := context.Cause(c.qc.Context())
	cause, _ := causeOf(err)
	var app *quic.ApplicationError
	orderly := errors.As(err, &app) && (!app.Remote || app.ErrorCode == codeDone)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case time.Since(c.born) >= steadyAfter:
		l.fails = 0
	case !orderly:
		// A peer that lets us in and then breaks at once is no better than one that
		// does not answer.
		l.note(l.at, cause)
	}
}

func (l *link) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == c {
		l.conn = nil
	}
}

// dial makes one connection. Its errors are causes for an *UnreachableError.
func (m *Mesh) dial(ctx context.Context, key linkKey, addr string) (*conn, error) {
	to, err := resolve(ctx, addr)
	if err != nil {
		return nil, err
	}
	conf := m.cfg.Credentials.Client(func(id certs.Identity) error {
		if id.Role != certs.RoleNode || key.peer != "" && id.ID != key.peer {
			return fmt.Errorf("%w: %s answers at %s", ErrRejected, id, addr)
		}
		return nil
	}, protocolNode)
	qc, err := m.transport.Dial(ctx, to, conf, m.cfg.quic(false))
	if err != nil {
		cause, _ := causeOf(err)
		return nil, cause
	}
	peer, err := certs.PeerOf(qc.ConnectionState().TLS)
	if err != nil {
		_ = qc.CloseWithError(codeProtocol, "")
		return nil, fmt.Errorf("%w: %w", ErrRejected, err)
	}
	c := m.newConn(qc, peer, true, key.class)
	if err := m.register(c); err != nil {
		return nil, err
	}
	return c, nil
}

// resolve gives the UDP address of "host:port".
func resolve(ctx context.Context, addr string) (*net.UDPAddr, error) {
	if literal, err := netip.ParseAddrPort(addr); err == nil {
		return net.UDPAddrFromAddrPort(literal), nil
	}
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "udp", service)
	if err != nil {
		return nil, err
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	return net.UDPAddrFromAddrPort(netip.AddrPortFrom(ips[0].Unmap(), uint16(port))), nil
}
