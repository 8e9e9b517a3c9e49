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

// linkKey identifies one outgoing connection: by peer or, if the peer's id is not known
// yet, by address.
type linkKey struct {
	peer  string
	addr  string
	class Class
}

// link manages one outgoing connection. It dials when a call first needs the connection,
// with one dial at a time, and again when it has broken. After a failure it backs off for a
// random time. Calls then fail at once, instead of each waiting for a handshake timeout.
type link struct {
	m   *Mesh
	key linkKey

	mu       sync.Mutex
	conn     *conn     // the present connection; nil if there is none, or it was found broken
	dialing  *dialing  // the dial under way; nil if there is none
	failures int       // failed dials, for the backoff; reset when a connection has proved stable
	retryAt  time.Time // no dial before
	lastErr  error     // why
	addr     string    // the address of the connection, or else of the failure
	lastUse  time.Time // when it was last asked for a connection
}

// unused reports whether the link holds nothing worth keeping, so that it can be removed.
func (l *link) unused(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn == nil && l.dialing == nil && now.After(l.retryAt) && now.Sub(l.lastUse) > retireAfter
}

// dialing is one dial, which any number of calls may wait for.
type dialing struct {
	done chan struct{} // closed once conn or err is set
	conn *conn
	err  error
}

const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 3 * time.Second
	// stableAfter is the age at which a connection resets the backoff.
	stableAfter = 3 * time.Second
)

// backoff returns a random wait, up to a bound that doubles with each failure.
func backoff(fails int) time.Duration {
	most := maxBackoff
	if fails < 8 {
		most = min(most, minBackoff<<fails)
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

// use returns a connection on which a stream can be opened, dialling if necessary. hint is
// the address to use if none is known. Errors are causes for an *UnreachableError.
func (l *link) use(ctx context.Context, hint string) (*conn, error) {
	addr := l.address(hint)
	l.mu.Lock()
	l.lastUse = time.Now()
	if c := l.conn; c != nil {
		usable := c.usable()
		if usable && (addr == l.addr || addr == "") {
			l.mu.Unlock()
			return c, nil
		}
		l.conn = nil
		if usable {
			// The peer has another address. Calls on the old connection go on.
			defer c.drain()
		}
	}
	d := l.dialing
	if d == nil {
		if err := l.mayDial(addr); err != nil {
			l.mu.Unlock()
			return nil, err
		}
		d = &dialing{done: make(chan struct{})}
		if !l.m.spawn(func() { l.dial(d, addr) }) {
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
	if addr == l.addr && time.Now().Before(l.retryAt) {
		return l.lastErr
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
		l.recordFailure(addr, err)
	} else {
		l.conn = c
		l.addr = addr
	}
	l.mu.Unlock()
	d.conn, d.err = c, err
	close(d.done)
	if c != nil && !l.m.spawn(func() { l.watch(c) }) {
		c.close(codeDone)
	}
}

// pruneLinks removes links that nobody uses, so that former peers take no memory.
func (m *Mesh) pruneLinks(now time.Time) {
	m.mu.Lock()
	links := maps.Clone(m.links)
	m.mu.Unlock()
	for key, l := range links {
		if l.unused(now) {
			m.mu.Lock()
			delete(m.links, key)
			m.mu.Unlock()
		}
	}
}

// recordFailure starts the backoff after a failure. Called with the lock held.
func (l *link) recordFailure(addr string, err error) {
	if addr != l.addr {
		l.failures = 0
	}
	l.addr, l.lastErr = addr, err
	l.retryAt = time.Now().Add(backoff(l.failures))
	l.failures++
}

// watch waits for the end of a connection. A peer that is about to close announces it by
// opening a stream in the other direction: then the connection takes no new calls.
func (l *link) watch(c *conn) {
	if _, err := c.qc.AcceptUniStream(c.qc.Context()); err == nil {
		l.forget(c)
		c.drain()
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
	case time.Since(c.born) >= stableAfter:
		l.failures = 0
	case !orderly:
		// A peer that accepts connections and breaks them at once needs the same backoff as
		// one that does not answer.
		l.recordFailure(l.addr, cause)
	}
}

func (l *link) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == c {
		l.conn = nil
	}
}

// dial opens one connection. Its errors are causes for an *UnreachableError.
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

// resolve returns the UDP address of "host:port".
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
