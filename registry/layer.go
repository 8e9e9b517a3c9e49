package registry

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// StreamLayer carries raft's byte streams between nodes. Both ends of a stream
// are proven nodes of this mesh; that is the layer's business.
type StreamLayer interface {
	// Accept waits for a stream that another node opened. After Close it fails at
	// once.
	Accept() (net.Conn, error)
	// Dial opens a stream to a node. The address is a node id.
	Dial(address string, timeout time.Duration) (net.Conn, error)
	// Close ends Accept. It is idempotent.
	Close() error
	Addr() net.Addr
}

// streams is what raft sees of a StreamLayer: addresses are node ids, a stream to
// the node itself never leaves it, and Close ends every stream. raft's own
// transport leaves those that are open to time.
type streams struct {
	under  StreamLayer
	self   NodeID
	looped chan net.Conn
	ended  chan struct{} // closed when no stream can come any more
	taken  chan incoming

	mu     sync.Mutex
	open   map[*stream]struct{}
	closed bool
	stop   chan struct{}
}

type incoming struct {
	conn net.Conn
	err  error
}

var errStreamsClosed = errors.New("registry: the streams are closed")

func newStreams(under StreamLayer, self NodeID) *streams {
	s := &streams{
		under: under, self: self, looped: make(chan net.Conn), ended: make(chan struct{}),
		taken: make(chan incoming), open: map[*stream]struct{}{}, stop: make(chan struct{}),
	}
	go s.take()
	return s
}

// take moves accepted streams to Accept, which also takes those of the node's own.
// It ends when the layer does not accept any more after Close.
func (s *streams) take() {
	defer close(s.ended)
	for {
		conn, err := s.under.Accept()
		select {
		case s.taken <- incoming{conn, err}:
		case <-s.stop:
			if err == nil {
				_ = conn.Close()
			}
			return
		}
	}
}

// Accept gives the next stream that was opened to this node.
func (s *streams) Accept() (net.Conn, error) {
	select {
	case a := <-s.taken:
		if a.err != nil {
			return nil, a.err
		}
		return s.track(a.conn)
	case conn := <-s.looped:
		return s.track(conn)
	case <-s.stop:
		return nil, errStreamsClosed
	}
}

// Dial opens a stream to a node.
func (s *streams) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	if NodeID(to) != s.self {
		conn, err := s.under.Dial(string(to), timeout)
		if err != nil {
			return nil, err
		}
		return s.track(conn)
	}
	here, there := net.Pipe()
	patience := time.NewTimer(timeout)
	defer patience.Stop()
	select {
	case s.looped <- there:
		return s.track(here)
	case <-s.stop:
		return nil, errStreamsClosed
	case <-patience.C:
		return nil, errors.New("registry: this node does not take its own streams")
	}
}

// Addr gives the node's id: what others dial.
func (s *streams) Addr() net.Addr { return nodeAddr(s.self) }

// Close ends every stream and waits until none can come any more.
func (s *streams) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.stop)
	open := s.open
	s.open = nil
	s.mu.Unlock()
	err := s.under.Close()
	for conn := range open {
		_ = conn.Conn.Close()
	}
	<-s.ended
	return err
}

func (s *streams) track(conn net.Conn) (net.Conn, error) {
	tracked := &stream{Conn: conn, of: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = conn.Close()
		return nil, errStreamsClosed
	}
	s.open[tracked] = struct{}{}
	return tracked, nil
}

// stream forgets itself when it is closed.
type stream struct {
	net.Conn
	of *streams
}

func (c *stream) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// nodeAddr is a node id as a network address.
type nodeAddr NodeID

func (nodeAddr) Network() string  { return "node" }
func (a nodeAddr) String() string { return string(a) }
