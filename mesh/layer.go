package mesh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/locusrun/locus/certs"
)

// StreamLayer provides byte streams between nodes as net.Conn, over the control
// connections. Raft's transport uses one. Addresses are node ids.
type StreamLayer struct {
	m     *Mesh
	kind  string
	queue chan net.Conn // streams that wait for Accept
	once  sync.Once
	done  chan struct{} // closed by Close
}

// acceptQueue bounds the streams that wait for Accept; further ones are refused. The bound
// is low because each of them may hold a whole stream window of its connection's.
const acceptQueue = 8

// StreamLayer starts to accept byte streams of a kind, whose name has the form of a
// method's. There can be only one layer of a kind at a time.
func (m *Mesh) StreamLayer(kind string) (*StreamLayer, error) {
	if !isName(kind) {
		return nil, fmt.Errorf("mesh: bad name %q of a stream layer", kind)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state >= closing {
		return nil, ErrClosed
	}
	if m.layers[kind] != nil {
		return nil, fmt.Errorf("mesh: there is a stream layer %q already", kind)
	}
	l := &StreamLayer{m: m, kind: kind, queue: make(chan net.Conn, acceptQueue), done: make(chan struct{})}
	m.layers[kind] = l
	return l, nil
}

// Accept returns the next stream that a node has opened. Its error is net.ErrClosed, after
// Close of the layer or of the mesh.
func (l *StreamLayer) Accept() (net.Conn, error) {
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-l.m.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close ends Accept and refuses the streams that wait for it. Accepted streams go on.
func (l *StreamLayer) Close() error {
	l.once.Do(func() {
		l.m.mu.Lock()
		delete(l.m.layers, l.kind)
		l.m.mu.Unlock()
		close(l.done)
		for {
			select {
			case c := <-l.queue:
				_ = c.Close() // it never fails
			default:
				return
			}
		}
	})
	return nil
}

// Addr is this node's id.
func (l *StreamLayer) Addr() net.Addr { return PeerAddr(l.m.id.ID) }

// Dial opens a stream to the node with that id. The header is sent at once, so that the
// peer can accept the stream before anything is written. Every error is an
// *UnreachableError.
func (l *StreamLayer) Dial(peer string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(l.m.ctx, timeout)
	defer cancel()
	return l.m.dialBytes(ctx, linkKey{peer: peer, class: Control}, "", l.kind)
}

func (m *Mesh) dialBytes(ctx context.Context, key linkKey, hint, kind string) (net.Conn, error) {
	c, qs, err := m.open(ctx, key, hint)
	if err != nil {
		return nil, &UnreachableError{Peer: key.peer, Cause: err}
	}
	b := newByteStream(m, c, qs)
	if deadline, ok := ctx.Deadline(); ok {
		_ = qs.SetWriteDeadline(deadline) // it never fails
	}
	if _, err := qs.Write(header{kind: kindBytes, name: kind}.append(nil)); err != nil {
		_ = b.Close() // it never fails
		return nil, b.failed(err)
	}
	_ = qs.SetWriteDeadline(time.Time{})
	return b, nil
}

// nodesOnly are the roles that may open byte streams.
var nodesOnly = []certs.Role{certs.RoleNode}

func (m *Mesh) serveBytes(c *conn, qs *quic.Stream, kind string) {
	m.mu.Lock()
	l, state := m.layers[kind], m.state
	m.mu.Unlock()
	switch {
	case !slices.Contains(nodesOnly, c.peer.Role):
		refuse(qs, codeForbidden)
		return
	case state >= closing:
		refuse(qs, codeDraining)
		return
	case l == nil:
		refuse(qs, codeUnknown)
		return
	}
	b := newByteStream(m, c, qs)
	select {
	case l.queue <- b:
	default:
		b.abandon(codeBusy)
		return
	}
	select {
	case <-l.done: // Close may have drained the queue before this stream was added
		b.abandon(codeUnknown)
	default:
	}
}

// PeerAddr is the id of a node as a net.Addr.
type PeerAddr string

// Network is "mesh".
func (PeerAddr) Network() string { return "mesh" }

// String is the id.
func (a PeerAddr) String() string { return string(a) }

// byteStream is a stream as a net.Conn.
type byteStream struct {
	*quic.Stream
	m    *Mesh
	on   *conn
	once sync.Once
	// writing is held for each write: quic does not allow Close during one.
	writing sync.Mutex
}

func newByteStream(m *Mesh, c *conn, qs *quic.Stream) *byteStream {
	b := &byteStream{Stream: qs, m: m, on: c}
	c.addLayer(b)
	return b
}

// LocalAddr is this node's id.
func (b *byteStream) LocalAddr() net.Addr { return PeerAddr(b.m.id.ID) }

// RemoteAddr is the id of the peer.
func (b *byteStream) RemoteAddr() net.Addr { return PeerAddr(b.on.peer.ID) }

// Identity returns the peer's identity. Users of the net.Conn find it by a type assertion.
func (b *byteStream) Identity() certs.Identity { return b.on.peer }

// Read returns io.EOF after the peer's Close.
func (b *byteStream) Read(p []byte) (int, error) {
	n, err := b.Stream.Read(p)
	return n, b.failed(err)
}

// Write blocks while the peer does not read.
func (b *byteStream) Write(p []byte) (int, error) {
	b.writing.Lock()
	defer b.writing.Unlock()
	n, err := b.Stream.Write(p)
	return n, b.failed(err)
}

// failed wraps an error in an *UnreachableError, except for io.EOF and deadline errors,
// which users of a net.Conn expect.
func (b *byteStream) failed(err error) error {
	var quicErr *quic.StreamError
	var net_ net.Error
	switch {
	case err == nil || errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case errors.As(err, &quicErr), errors.As(err, &net_):
		cause, unsent := causeOf(err)
		if quicErr != nil && !quicErr.Remote {
			cause = net.ErrClosed
		}
		return &UnreachableError{Peer: b.on.peer.ID, Sent: !unsent, Cause: cause}
	}
	return err
}

// Close ends both directions. Written data is still delivered; data that arrives is
// discarded. A blocked Write returns.
func (b *byteStream) Close() error {
	b.once.Do(func() {
		b.Stream.CancelRead(codeDone)
		_ = b.Stream.SetWriteDeadline(time.Unix(1, 0)) // it never fails
		b.writing.Lock()
		defer b.writing.Unlock()
		if b.Stream.Close() != nil {
			b.Stream.CancelWrite(codeDone) // cancelled by the peer before
		}
		b.on.removeLayer(b)
	})
	return nil
}

func (b *byteStream) abandon(code quic.StreamErrorCode) {
	b.once.Do(func() {
		refuse(b.Stream, code)
		b.on.removeLayer(b)
	})
}
