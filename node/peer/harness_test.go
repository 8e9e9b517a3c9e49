package peer_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/node/calls"
	"github.com/locusrun/locus/node/peer"
	"github.com/locusrun/locus/surfaces"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair is two nodes: asker holds the records of calls, owner runs them.
type pair struct {
	t      testing.TB
	asker  *mesh.Mesh
	owner  *mesh.Mesh
	server *peer.Server
	local  *local
	held   atomic.Bool // what the asker is told of the owner

	mu    sync.Mutex
	hosts map[string]surfaces.Host // what the asker does for the code of calls, by their ids
}

// hosting makes the asker the host of a call; with nil it knows no such call.
func (p *pair) hosting(callID string, h surfaces.Host) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hosts[callID] = h
}

func (p *pair) host(node, actor, callID string) surfaces.Host {
	p.mu.Lock()
	defer p.mu.Unlock()
	if node != "owner" || actor != "a" {
		return nil
	}
	return p.hosts[callID]
}

// local is a surface whose attempts a test scripts. It counts how often each was started.
type local struct {
	mu      sync.Mutex
	started map[string]int
	stopped map[string]chan struct{}
	run     func(ctx context.Context, a surfaces.Attempt, stopped <-chan struct{}) surfaces.Outcome
}

func (l *local) Execute(ctx context.Context, a surfaces.Attempt) surfaces.Outcome {
	l.mu.Lock()
	l.started[a.CallID]++
	stopped := make(chan struct{})
	l.stopped[a.CallID] = stopped
	l.mu.Unlock()
	a.Sink.Event(surfaces.Event{Kind: surfaces.EventPlaced})
	a.Sink.Event(surfaces.Event{Kind: surfaces.EventStarted, ID: a.CallID, Name: "owner"})
	return l.run(ctx, a, stopped)
}

func (l *local) stop(callID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.stopped[callID]; c != nil {
		close(c)
		delete(l.stopped, callID)
	}
}

func (l *local) starts(callID string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.started[callID]
}

// sockets are the packet connections of the two nodes.
type sockets struct{ asker, owner net.PacketConn }

func loopback(t testing.TB) sockets {
	t.Helper()
	listen := func() net.PacketConn {
		c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	return sockets{listen(), listen()}
}

func newPair(t testing.TB, s sockets, run func(context.Context, surfaces.Attempt, <-chan struct{}) surfaces.Outcome, change ...func(*peer.ServerConfig)) *pair {
	t.Helper()
	authority, err := certs.NewAuthority("test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{t: t, hosts: map[string]surfaces.Host{}, local: &local{started: map[string]int{}, stopped: map[string]chan struct{}{}, run: run}}
	var owning atomic.Pointer[mesh.Mesh] // read by who serves: the network between orders nothing for Go
	cfg := peer.ServerConfig{
		Local: p.local, IsLocal: func(context.Context, peer.Route) bool { return true }, Stop: p.local.stop, Grace: func() time.Duration { return 5 * time.Second },
		CallState: func(string) (bool, time.Duration) { return false, time.Hour },
		Find:      func(string, string) *calls.Record { return nil }, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Mesh: func() *mesh.Mesh { return owning.Load() }, HostOf: p.host,
	}
	for _, c := range change {
		c(&cfg)
	}
	p.server = peer.NewServer(cfg)
	where := map[string]string{"asker": s.asker.LocalAddr().String(), "owner": s.owner.LocalAddr().String()}
	open := func(id string, conn net.PacketConn, methods map[string]mesh.Method) *mesh.Mesh {
		key, err := certs.NewKey()
		if err != nil {
			t.Fatal(err)
		}
		chain, err := authority.Issue(certs.Identity{Cluster: "test", Role: certs.RoleNode, ID: id}, key.Public(), time.Now(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		credentials, err := certs.NewCredentials(tls.Certificate{Certificate: chain, PrivateKey: key}, certs.Trust{Roots: []*x509.Certificate{authority.Root()}})
		if err != nil {
			t.Fatal(err)
		}
		m, err := mesh.Open(mesh.Config{
			Conn: conn, Credentials: credentials, Methods: methods, Log: slog.New(slog.DiscardHandler),
			Locate: func(id string) string { return where[id] },
		})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	methods := p.server.Methods()
	methods["echo"] = mesh.Method{Roles: []certs.Role{certs.RoleNode}, Class: mesh.Data, Handle: func(_ context.Context, s *mesh.Stream) error {
		m, err := s.Receive()
		if err != nil {
			return err
		}
		return s.Send(m)
	}}
	p.owner = open("owner", s.owner, methods)
	owning.Store(p.owner)
	home := peer.NewServer(cfg)
	p.asker = open("asker", s.asker, home.Methods())
	t.Cleanup(func() {
		p.server.Close()
		home.Close()
		if err := p.asker.Close(); err != nil {
			t.Error(err)
		}
		if err := p.owner.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func never() (*surfaces.LostAttempt, <-chan struct{}) { return nil, nil }

func call(id string, timeout time.Duration) surfaces.Attempt {
	return surfaces.Attempt{CallID: id, Actor: "a", Number: 1, Call: surfaces.Call{Actor: "a", Request: surfaces.Request{
		Code: "code of " + id, Stdin: "input", Language: surfaces.Python, StateMode: surfaces.Stateful, Surface: surfaces.Local, Timeout: timeout,
	}, Session: &surfaces.SessionRef{Key: surfaces.SessionKey{Actor: "a", Language: surfaces.Python, ID: 1}, Exists: true, Epoch: 7}}}
}

// ask runs an attempt on the owner and returns the asker's record of it.
func (p *pair) ask(ctx context.Context, a surfaces.Attempt, fate peer.Fate) (surfaces.Outcome, *calls.Record) {
	if fate == nil {
		fate = never
	}
	r := calls.NewRecord(a.CallID, a.Call, func() {})
	a.Sink = r
	s := peer.Surface{Mesh: p.asker, Node: "owner", Incarnation: 1, Fate: func(surfaces.Attempt) peer.Fate { return fate }, Suspended: p.held.Load, Log: slog.New(slog.DiscardHandler)}
	out := s.Execute(ctx, a)
	r.Finish(out.Result)
	return out, r
}

func done() surfaces.Outcome {
	return surfaces.Outcome{Result: surfaces.Result{Status: surfaces.StatusDone, Attempts: 1}}
}
