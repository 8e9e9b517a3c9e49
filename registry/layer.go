package registry

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// StreamLayer carries raft's byte streams between nodes. It must authenticate both ends of a
// stream as nodes of this mesh.
type StreamLayer interface {
	// Accept waits for a stream that another node opened. After Close it fails
	// immediately.
	Accept() (net.Conn, error)
	// Dial opens a stream to a node. The address is a node id.
	Dial(address string, timeout time.Duration) (net.Conn, error)
	// Close ends Accept. It is idempotent.
	Close() error
	// Addr returns the address by which other nodes dial this one.
	Addr() net.Addr
}

// streams adapts a StreamLayer to raft: addresses are node ids, a stream to the node itself
// is an in-process pipe, and Close also ends the open streams, which raft's transport leaves
// open until they time out, and waits for raft's handlers of accepted ones. Raft waits for
// them neither at its own end nor at that of its transport; but it handles heartbeats on
// them, which can write the term, and it panics if the log is closed by then.
type streams struct {
	under  StreamLayer
	self   NodeID
	looped chan net.Conn // connections of this node to itself
	ended  chan struct{} // closed when take has returned
	taken  chan incoming // connections from other nodes, from the layer below

	mu       sync.Mutex
	open     map[*stream]struct{}
	closed   bool
	stop     chan struct{}  // closed by Close
	handlers sync.WaitGroup // of accepted streams; each closes its stream when it ends
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

// take hands accepted streams to Accept, which also receives the in-process ones. It ends
// when the layer is closed.
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

// Accept waits for the next stream to this node.
func (s *streams) Accept() (net.Conn, error) {
	select {
	case a := <-s.taken:
		if a.err != nil {
			return nil, a.err
		}
		return s.track(a.conn, s.handlers.Done)
	case conn := <-s.looped:
		return s.track(conn, s.handlers.Done)
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
		return s.track(conn, nil)
	}
	here, there := net.Pipe()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case s.looped <- there:
		return s.track(here, nil)
	case <-s.stop:
		return nil, errStreamsClosed
	case <-timer.C:
		return nil, errors.New("registry: timed out dialling this node itself")
	}
}

// Addr returns the node's id, which is what the others dial.
func (s *streams) Addr() net.Addr { return nodeAddr(s.self) }

// Close ends every stream, and waits until no new one can be accepted and the handlers of the
// accepted ones have ended.
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
	s.handlers.Wait()
	return err
}

// track returns a stream that Close ends. handled is called when a handler, which the stream
// is for, has ended; nil for a dialled one.
func (s *streams) track(conn net.Conn, handled func()) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = conn.Close()
		return nil, errStreamsClosed
	}
	tracked := &stream{Conn: conn, ended: s.stop}
	tracked.forget = sync.OnceFunc(func() {
		s.mu.Lock()
		delete(s.open, tracked)
		s.mu.Unlock()
		if handled != nil {
			handled()
		}
	})
	if handled != nil {
		s.handlers.Add(1)
	}
	s.open[tracked] = struct{}{}
	return tracked, nil
}

// stream removes itself from the open streams when its user closes it.
type stream struct {
	net.Conn
	forget func()
	ended  <-chan struct{} // closed when all streams end
}

// Read reads from the stream. One that this node has ended is at its end: of any other error
// raft's handler would warn, at each shutdown.
func (c *stream) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	select {
	case <-c.ended:
		if err != nil {
			err = io.EOF
		}
	default:
	}
	return n, err
}

func (c *stream) Close() error {
	c.forget()
	return c.Conn.Close()
}

// nodeAddr is a node id as a network address.
type nodeAddr NodeID

func (nodeAddr) Network() string  { return "node" }
func (a nodeAddr) String() string { return string(a) }
