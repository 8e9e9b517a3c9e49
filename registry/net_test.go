package registry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// network connects registries in one process. Each direction between two nodes can be cut;
// messages over a cut are lost.
type network struct {
	mu    sync.Mutex
	nodes map[NodeID]*wired
	cut   map[[2]NodeID]bool
	delay func() time.Duration
	// lose says whether the reply to a forwarded request is lost after it acted.
	lose func(from, to NodeID) bool
	heal chan struct{} // closed and replaced when a cut is mended
}

func newNetwork() *network {
	return &network{nodes: map[NodeID]*wired{}, cut: map[[2]NodeID]bool{}, heal: make(chan struct{})}
}

// wired is the layer of one node.
type wired struct {
	of       *network
	id       NodeID
	incoming chan net.Conn
	closed   chan struct{}
	once     sync.Once
	serve    func(ctx context.Context, from NodeID, request []byte) ([]byte, error)
}

func (n *network) layer(id NodeID) *wired {
	n.mu.Lock()
	defer n.mu.Unlock()
	w := &wired{of: n, id: id, incoming: make(chan net.Conn), closed: make(chan struct{})}
	n.nodes[id] = w
	return w
}

func (n *network) at(id NodeID) *wired {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nodes[id]
}

// set cuts or mends one direction.
func (n *network) set(from, to NodeID, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[[2]NodeID{from, to}] = cut
	close(n.heal)
	n.heal = make(chan struct{})
}

// isolate cuts a node from all others, or mends that.
func (n *network) isolate(id NodeID, cut bool) {
	n.mu.Lock()
	var others []NodeID
	for other := range n.nodes {
		others = append(others, other)
	}
	n.mu.Unlock()
	for _, other := range others {
		if other != id {
			n.set(id, other, cut)
			n.set(other, id, cut)
		}
	}
}

// pass waits until a message may go from one node to another, or until stop.
func (n *network) pass(from, to NodeID, stop <-chan struct{}) bool {
	n.mu.Lock()
	delay := n.delay
	n.mu.Unlock()
	if delay != nil {
		time.Sleep(delay())
	}
	for {
		n.mu.Lock()
		cut, heal := n.cut[[2]NodeID{from, to}], n.heal
		n.mu.Unlock()
		if !cut {
			return true
		}
		select {
		case <-heal:
		case <-stop:
			return false
		}
	}
}

func (w *wired) Accept() (net.Conn, error) {
	select {
	case c := <-w.incoming:
		return c, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

func (w *wired) Close() error {
	w.once.Do(func() { close(w.closed) })
	return nil
}

func (w *wired) Addr() net.Addr { return nodeAddr(w.id) }

func (w *wired) Dial(address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	to := w.of.at(NodeID(address))
	if to == nil {
		return nil, fmt.Errorf("no node %s", address)
	}
	if !w.of.pass(w.id, to.id, ctx.Done()) || !w.of.pass(to.id, w.id, ctx.Done()) {
		return nil, os.ErrDeadlineExceeded
	}
	here, there := net.Pipe()
	a, b := &wire{Conn: here, of: w.of, from: w.id, to: to.id}, &wire{Conn: there, of: w.of, from: to.id, to: w.id}
	a.life, a.end = context.WithCancel(context.Background())
	b.life, b.end = context.WithCancel(context.Background())
	select {
	case to.incoming <- b:
		return a, nil
	case <-to.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, os.ErrDeadlineExceeded
	}
}

// wire delays writes, and holds them back while its direction is cut.
type wire struct {
	net.Conn
	of       *network
	from, to NodeID
	life     context.Context
	end      context.CancelFunc
	mu       sync.Mutex
	deadline time.Time
}

func (c *wire) Write(b []byte) (int, error) {
	c.mu.Lock()
	deadline := c.deadline
	c.mu.Unlock()
	ctx, cancel := context.WithCancel(c.life)
	if !deadline.IsZero() {
		ctx, cancel = context.WithDeadline(c.life, deadline)
	}
	defer cancel()
	if !c.of.pass(c.from, c.to, ctx.Done()) {
		return 0, os.ErrDeadlineExceeded
	}
	return c.Conn.Write(b)
}

func (c *wire) SetDeadline(t time.Time) error {
	c.mu.Lock()
	c.deadline = t
	c.mu.Unlock()
	return c.Conn.SetDeadline(t)
}

func (c *wire) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	c.deadline = t
	c.mu.Unlock()
	return c.Conn.SetWriteDeadline(t)
}

func (c *wire) Close() error {
	c.end()
	return c.Conn.Close()
}

var errLostReply = errors.New("the reply was lost")

// forward is what a node's Config.Forward does on this network.
func (w *wired) forward(ctx context.Context, to NodeID, request []byte) ([]byte, bool, error) {
	peer := w.of.at(to)
	if peer == nil {
		return nil, false, fmt.Errorf("no node %s", to)
	}
	if !w.of.pass(w.id, to, ctx.Done()) {
		return nil, false, context.Cause(ctx)
	}
	peer.of.mu.Lock()
	serve := peer.serve
	peer.of.mu.Unlock()
	if serve == nil {
		return nil, false, fmt.Errorf("%s is down", to)
	}
	reply, err := serve(ctx, w.id, request)
	if err != nil {
		return nil, true, err
	}
	w.of.mu.Lock()
	lose := w.of.lose
	w.of.mu.Unlock()
	if lose != nil && lose(w.id, to) {
		return nil, true, errLostReply
	}
	if !w.of.pass(to, w.id, ctx.Done()) {
		return nil, true, context.Cause(ctx)
	}
	return reply, true, nil
}

// countProbes counts the questions that a node sends to others.
func countProbes(c *Config, n *atomic.Int64) {
	forward := c.Forward
	c.Forward = func(ctx context.Context, to NodeID, request []byte) ([]byte, bool, error) {
		if q, err := decodeCall(request); err == nil && q.op == opProbe {
			n.Add(1)
		}
		return forward(ctx, to, request)
	}
}

// mesh is a group of registries on one network.
type mesh struct {
	t     *testing.T
	net   *network
	dirs  map[NodeID]string
	nodes map[NodeID]*Registry
	tune  func(*Config)
}

func newMesh(t *testing.T, tune func(*Config)) *mesh {
	m := &mesh{t: t, net: newNetwork(), dirs: map[NodeID]string{}, nodes: map[NodeID]*Registry{}, tune: tune}
	t.Cleanup(m.stop)
	return m
}

func (m *mesh) stop() {
	if len(m.nodes) == 0 {
		return
	}
	for id := range m.nodes {
		m.down(id)
	}
}

// up starts a node; the first one makes the mesh.
func (m *mesh) up(id NodeID) *Registry {
	m.t.Helper()
	if m.dirs[id] == "" {
		m.dirs[id] = m.t.TempDir()
	}
	w := m.net.layer(id)
	c := Config{Dir: m.dirs[id], NodeID: id, Join: id != "n1", ClusterID: "mesh", Layer: w, Forward: w.forward,
		Heartbeat: 200 * time.Millisecond, StableFor: 300 * time.Millisecond}
	if m.tune != nil {
		m.tune(&c)
	}
	r, err := Open(within60(m.t), c)
	if err != nil {
		m.t.Fatal(err)
	}
	r.dir.store.db.NoSync = true // nothing is killed here, and time is short
	m.net.mu.Lock()
	w.serve = r.Serve
	m.net.mu.Unlock()
	m.nodes[id] = r
	return r
}

// down stops a node as a crash would, as far as others can see.
func (m *mesh) down(id NodeID) {
	m.t.Helper()
	w := m.net.at(id)
	m.net.mu.Lock()
	w.serve = nil
	m.net.mu.Unlock()
	if err := m.nodes[id].Close(); err != nil {
		m.t.Error(err)
	}
	delete(m.nodes, id)
}

// grow starts so many nodes, n1 to nN, and adds them.
func (m *mesh) grow(n int) {
	m.t.Helper()
	for i := 1; i <= n; i++ {
		id := NodeID(fmt.Sprint("n", i))
		if m.nodes[id] != nil {
			continue
		}
		m.up(id)
		if i > 1 {
			if err := m.nodes["n1"].AddMember(within60(m.t), id); err != nil {
				m.t.Fatal(err)
			}
		}
	}
}

// until waits for a condition.
func (m *mesh) until(what string, ok func() bool) {
	m.t.Helper()
	until(m.t, what, ok)
}

func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patient); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patient, what)
		}
	}
}

func (m *mesh) voters(r *Registry) int {
	n := 0
	for _, member := range r.Members() {
		if member.Voter {
			n++
		}
	}
	return n
}

// leader gives the node that leads and is ready.
func (m *mesh) leader() NodeID {
	for id, r := range m.nodes {
		if r.Leading() {
			return id
		}
	}
	return ""
}

// other gives a running node that does not lead.
func (m *mesh) other() NodeID {
	leader := m.leader()
	for id := range m.nodes {
		if id != leader {
			return id
		}
	}
	return ""
}

// contextOf is a context that ends with the test at the latest.
func contextOf(m *mesh) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	m.t.Cleanup(cancel)
	return ctx, cancel
}

func jitter(most time.Duration) func() time.Duration {
	return func() time.Duration { return rand.N(most) }
}
