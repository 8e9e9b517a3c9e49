package agentlink

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/surfaces"
)

// patience bounds every wait of these tests.
const patience = time.Minute

// town is a mesh of one node, with an in-memory directory.
type town struct {
	t         testing.TB
	authority *certs.Authority
	mesh      *mesh.Mesh
	hub       *Hub
	ended     chan struct{}
	address   string // of the node, as machines know it

	mu       sync.Mutex
	machines map[string]Machine
	changed  chan struct{}
	late     map[string]surfaces.Result
	recovers int
	looks    func()            // called before a machine is looked for, if any
	others   map[string]string // addresses of other nodes that are up
	nodes    []mesh.NodeAddr   // the nodes that machines are told; if nil, this one

	leaderless bool // the directory cannot be brought up to date
}

var _ Directory = (*town)(nil)

func newTown(t testing.TB) *town {
	t.Helper()
	return newTownServing(t, nil)
}

// newTownServing returns a town whose node serves some methods in place of its hub.
func newTownServing(t testing.TB, instead map[string]func(context.Context, *mesh.Stream) error) *town {
	t.Helper()
	authority, err := certs.NewAuthority("test", time.Now().Add(-90*24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	w := &town{t: t, authority: authority, machines: map[string]Machine{}, changed: make(chan struct{}), late: map[string]surfaces.Result{}, ended: make(chan struct{})}
	w.hub = NewHub(HubConfig{
		Node: "n", Mesh: func() *mesh.Mesh { return w.mesh }, Directory: w, AwaitReady: func(context.Context) error { return nil },
		LateResult: func(callID string, res surfaces.Result) bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.late[callID] = res
			return true
		},
		OnEvent: func(string, Machine) {}, Log: slog.New(slog.DiscardHandler),
	})
	methods := w.hub.Methods()
	methods["echo"] = mesh.Method{Roles: []certs.Role{certs.RoleLink}, Class: mesh.Data, Handle: func(_ context.Context, s *mesh.Stream) error {
		m, err := s.Receive()
		if err != nil {
			return err
		}
		return s.Send(m)
	}}
	for name, handle := range instead {
		m := methods[name]
		m.Handle = handle
		methods[name] = m
	}
	w.mesh, err = mesh.Open(mesh.Config{
		Conn: loopback(t), Credentials: w.credentials(certs.RoleNode, "n", time.Now()), Methods: methods, Recover: w.recover,
		Locate: func(id string) string {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.others[id]
		},
		Enrol: func(context.Context, mesh.EnrolRequest) (mesh.EnrolReply, error) {
			return mesh.EnrolReply{}, mesh.ErrRefused
		},
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.address = w.mesh.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	go func() { defer close(w.ended); w.hub.Run(ctx) }()
	t.Cleanup(func() {
		w.hub.Drain()
		cancel()
		<-w.ended
		if err := w.mesh.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func loopback(t testing.TB) *net.UDPConn {
	t.Helper()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (w *town) credentials(role certs.Role, id string, from time.Time) *certs.Credentials {
	w.t.Helper()
	key, err := certs.NewKey()
	if err != nil {
		w.t.Fatal(err)
	}
	chain, err := w.authority.Issue(certs.Identity{Cluster: "test", Role: role, ID: id}, key.Public(), from, 24*time.Hour)
	if err != nil {
		w.t.Fatal(err)
	}
	c, err := certs.NewCredentials(tls.Certificate{Certificate: chain, PrivateKey: key}, w.trust())
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *town) trust() certs.Trust {
	return certs.Trust{Roots: []*x509.Certificate{w.authority.Root()}}
}

func (w *town) recover(_ context.Context, req mesh.RecoverRequest) (mesh.EnrolReply, error) {
	who, err := req.Proof.Verify("test", w.trust().Roots, req.Nonce, req.Exporter, time.Now())
	if err != nil {
		return mesh.EnrolReply{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.recovers++
	if _, ok := w.machines[who.Identity.ID]; !ok {
		return mesh.EnrolReply{}, errors.New("no machine of ours")
	}
	chain, err := w.authority.Issue(who.Identity, who.Key, time.Now(), 24*time.Hour)
	return mesh.EnrolReply{Chain: chain, Trust: w.trust(), Identity: who.Identity}, err
}

func (w *town) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *town) Known(_ context.Context, id certs.Identity) (Machine, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m, ok := w.machines[id.ID]
	return m, ok, nil
}

func (w *town) Find(actor string, place surfaces.Place, name string) (Machine, bool) {
	w.mu.Lock()
	looks := w.looks
	w.mu.Unlock()
	if looks != nil {
		looks()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.machines {
		if m.Actor == actor && m.Place == place && m.Name == name {
			return m, true
		}
	}
	return Machine{}, false
}

func (w *town) Sync(ctx context.Context) error {
	w.mu.Lock()
	leaderless := w.leaderless
	w.mu.Unlock()
	if leaderless {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (w *town) Changed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

func (w *town) set(id string, f func(*Machine)) {
	w.change(func() {
		if m, ok := w.machines[id]; ok {
			f(&m)
			w.machines[id] = m
		}
	})
}

func (w *town) Connected(_ context.Context, id string, facts Facts) error {
	w.set(id, func(m *Machine) { m.Node, m.Languages = "n", facts.Languages })
	return nil
}

func (w *town) Disconnected(_ context.Context, id string) error {
	w.set(id, func(m *Machine) { m.Node = "" })
	return nil
}

func (w *town) Unlink(_ context.Context, id certs.Identity) error {
	w.change(func() { delete(w.machines, id.ID) })
	w.hub.Disconnect(id.ID)
	return nil
}

func (w *town) Renew(_ context.Context, id certs.Identity, spki []byte) ([][]byte, certs.Trust, error) {
	key, err := certs.ParseSPKI(spki)
	if err != nil {
		return nil, certs.Trust{}, err
	}
	chain, err := w.authority.Issue(id, key, time.Now(), 24*time.Hour)
	return chain, w.trust(), err
}

func (w *town) Nodes() []mesh.NodeAddr {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.nodes != nil {
		return w.nodes
	}
	return []mesh.NodeAddr{{ID: "n", Addr: w.address}}
}

func (w *town) Elsewhere() (list []mesh.NodeAddr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, addr := range w.others {
		list = append(list, mesh.NodeAddr{ID: id, Addr: addr})
	}
	return list
}

func (w *town) Gone(node string) bool { return node != "n" }

// settle adds a machine with a certificate issued at a given time, and returns its
// directory.
func (w *town) settle(id string, from time.Time) string {
	w.t.Helper()
	dir := w.t.TempDir()
	w.change(func() {
		w.machines[id] = Machine{ID: id, Name: id, Actor: "ada", Place: surfaces.UserMachine}
	})
	addresses, err := json.Marshal([]string{w.address})
	if err == nil {
		err = errors.Join(certs.SaveCredentials(dir, w.credentials(certs.RoleLink, id, from)), os.WriteFile(filepath.Join(dir, nodesFile), addresses, 0o600))
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return dir
}

// quickly is a Runner that runs nothing and returns 1.
type quickly struct{}

func (quickly) Languages(context.Context) []string { return []string{"python"} }

func (quickly) Run(_ context.Context, p Program, _ surfaces.Sink, _ surfaces.Host) surfaces.Result {
	return surfaces.Result{CallID: p.CallID, Status: surfaces.StatusDone, Result: json.RawMessage("1")}
}

// runs starts an agent in a directory. The channel receives the error of its Run.
func (w *town) runs(dir string, runner Runner) <-chan error {
	w.t.Helper()
	a, err := Open(w.t.Context(), Config{
		Dir: dir, Role: certs.RoleLink, Runner: runner, Policy: Policy{Consent: ConsentAllow}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	done := make(chan struct{})
	go func() { defer close(done); ended <- a.Run(ctx) }()
	w.t.Cleanup(func() { cancel(); <-done })
	return ended
}

func (w *town) awaits(what string, holds func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("not in time: %s", what)
		}
	}
}

func (w *town) there(id string) func() bool {
	return func() bool {
		m, ok := w.Find("ada", surfaces.UserMachine, id)
		return ok && m.Node == "n"
	}
}

func (w *town) call(machine, callID string) surfaces.Result {
	return w.callFor(machine, callID, patience)
}

func (w *town) callFor(machine, callID string, timeout time.Duration) surfaces.Result {
	return w.callIn(w.t.Context(), machine, callID, timeout)
}

func (w *town) callIn(ctx context.Context, machine, callID string, timeout time.Duration) surfaces.Result {
	return w.hub.Execute(ctx, attempt(machine, callID, timeout)).Result
}

func attempt(machine, callID string, timeout time.Duration) surfaces.Attempt {
	return surfaces.Attempt{CallID: callID, Actor: "ada", Number: 1, Call: surfaces.Call{
		Actor: "ada", Linked: &surfaces.MachineItem{Name: machine, Place: surfaces.UserMachine},
		Request: surfaces.Request{Code: "1", Language: surfaces.Python, StateMode: surfaces.Stateless, Surface: surfaces.UserMachine, Timeout: timeout},
	}}
}

// bare returns the mesh of a machine whose side of the link the test plays.
func (w *town) bare(id string) *mesh.Mesh {
	w.t.Helper()
	w.change(func() {
		w.machines[id] = Machine{ID: id, Name: id, Actor: "ada", Place: surfaces.UserMachine}
	})
	m, err := mesh.Open(mesh.Config{Conn: loopback(w.t), Credentials: w.credentials(certs.RoleLink, id, time.Now()), DialOnly: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := m.Close(); err != nil {
			w.t.Error(err)
		}
	})
	return m
}

// opens opens a stream and sends its first message.
func (w *town) opens(m *mesh.Mesh, method string, message any) *mesh.Stream {
	w.t.Helper()
	s, err := m.StreamAt(w.t.Context(), w.mesh.Addr().String(), method)
	if err == nil {
		err = sendJSON(s, message)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}
