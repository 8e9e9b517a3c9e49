package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/mesh/faultnet"
	"github.com/locusrun/locus/node/calls"
	"github.com/locusrun/locus/node/engine"
	"github.com/locusrun/locus/node/peer"
	"github.com/locusrun/locus/placement"
	"github.com/locusrun/locus/placement/history"
	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// virtual is a whole mesh in virtual time: real nodes, except for the HTTP server, the
// enrolment and the processes of the code.
type virtual struct {
	t         *testing.T
	network   *faultnet.Network
	authority *certs.Authority
	kernels   *simulatedKernels
	dirs      map[registry.NodeID]string
	random    *rand.Rand

	mu    sync.Mutex
	nodes map[registry.NodeID]*virtualNode
	calls []history.Call
	codes map[string]int
}

type virtualNode struct {
	*Node
	end  context.CancelFunc
	died bool
}

func newVirtual(t *testing.T, seed uint64) *virtual {
	t.Helper()
	authority, err := certs.NewAuthority("test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	v := &virtual{
		t: t, network: faultnet.New(seed, faultnet.Link{Delay: time.Millisecond}), authority: authority,
		kernels: &simulatedKernels{began: time.Now()}, dirs: map[registry.NodeID]string{},
		random: rand.New(rand.NewPCG(seed, 3)), nodes: map[registry.NodeID]*virtualNode{}, codes: map[string]int{},
	}
	t.Cleanup(v.stop)
	return v
}

func hostOf(id registry.NodeID) string { return "10.0.0." + string(id[1:]) }

func (v *virtual) credentials(id registry.NodeID) *certs.Credentials {
	v.t.Helper()
	key, err := certs.NewKey()
	if err != nil {
		v.t.Fatal(err)
	}
	who := certs.Identity{Cluster: v.authority.Cluster(), Role: certs.RoleNode, ID: string(id)}
	chain, err := v.authority.Issue(who, key.Public(), time.Now(), 24*time.Hour)
	if err != nil {
		v.t.Fatal(err)
	}
	c, err := certs.NewCredentials(tls.Certificate{Certificate: chain, PrivateKey: key}, certs.Trust{Roots: []*x509.Certificate{v.authority.Root()}})
	if err != nil {
		v.t.Fatal(err)
	}
	return c
}

// up starts a node, with its earlier directory if it had one. The first node founds the mesh.
func (v *virtual) up(id registry.NodeID) *virtualNode {
	v.t.Helper()
	if v.dirs[id] == "" {
		v.dirs[id] = inMemory(v.t)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	life, end := context.WithCancel(context.Background())
	cfg := Config{
		DataDir: v.dirs[id], Log: slog.New(slog.DiscardHandler), Heartbeat: 500 * time.Millisecond,
		Lease: registry.LeaseConfig{TTL: 2 * time.Second, Grace: time.Second, Margin: 300 * time.Millisecond, HoldFor: 20 * time.Second},
	}
	if testing.Verbose() && os.Getenv("LOCUS_LOG") != "" {
		cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, nil)).With("at", id)
	}
	n := &virtualNode{end: end, Node: &Node{
		cfg: cfg, id: id, started: time.Now(), ctx: life, haveRegistry: make(chan struct{}), advertise: hostOf(id) + ":7000",
		memory: &memory{}, runtimes: &runtimes{log: cfg.Log, actors: map[string]*actorRuntime{}, python: func() (string, error) { return "pretended", nil }},
		calls: calls.NewTable(),
	}}
	n.link = n.newLink()
	conn, err := v.network.Listen(n.advertise)
	if err != nil {
		v.t.Fatal(err)
	}
	n.serving = peer.NewServer(peer.ServerConfig{
		Local: engineProxy{n.Node}, IsLocal: n.ownsRoute, Stop: n.stopHere, CallState: n.runState, Grace: func() time.Duration { return 13 * time.Second }, Find: n.heldRecord, Log: cfg.Log,
	})
	methods := map[string]mesh.Method{methodRegistry: {Roles: []certs.Role{certs.RoleNode}, Class: mesh.Control, Handle: n.serveRegistry}}
	for _, some := range []map[string]mesh.Method{n.serving.Methods(), n.toolMethods()} {
		for name, m := range some {
			methods[name] = m
		}
	}
	n.mesh, err = mesh.Open(mesh.Config{
		Conn: conn, Credentials: v.credentials(id), Methods: methods, Log: cfg.Log,
		Locate: func(id string) string { return hostOf(registry.NodeID(id)) + ":7000" },
	})
	if err != nil {
		v.t.Fatal(err)
	}
	conf := cfg.registryConfig()
	conf.NodeID, conf.ClusterID, conf.Join, conf.StableFor = id, "test", id != "n1", 300*time.Millisecond
	if conf.Layer, err = n.mesh.StreamLayer(layerRaft); err != nil {
		v.t.Fatal(err)
	}
	conf.Forward = n.forward
	if n.registry, err = registry.Open(ctx, conf); err != nil {
		v.t.Fatal(err)
	}
	n.engine = engine.New(engine.Config{Node: string(id), Kernels: v.kernels, Log: cfg.Log, Lost: n.sessionLost, Serving: n.mayServe})
	n.placement = placement.New(placement.Config{
		Registry: n.registry, Node: id, At: n.surfaceOf, Load: n.loadOf, MaxRunning: engine.DefaultMaxRunning, Log: cfg.Log,
	})
	close(n.haveRegistry)
	v.mu.Lock()
	v.nodes[id] = n
	v.mu.Unlock()
	return n
}

// inMemory returns a directory in memory if the machine supports it, so that syncing takes no
// time. No test here loses power.
func inMemory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "locus-test")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// join makes a started node a member of the mesh.
func (v *virtual) join(n *virtualNode) {
	v.t.Helper()
	v.until("node "+string(n.id)+" is in", func() bool {
		ctx, cancel := context.WithTimeout(n.ctx, 5*time.Second)
		defer cancel()
		if _, err := n.registry.AwaitLeader(ctx); err != nil {
			return false
		}
		return n.register(ctx) == nil && n.lease.Load().Await(ctx) == nil
	})
	n.work.Go(func() { n.serveLease(n.ctx) })
	n.work.Go(func() { n.reconcile(n.ctx) })
}

// grow starts a number of nodes, of which up to five vote.
func (v *virtual) grow(nodes int) {
	v.t.Helper()
	for i := 1; i <= nodes; i++ {
		n := v.up(registry.NodeID(fmt.Sprint("n", i)))
		if i > 1 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			if err := v.nodes["n1"].registry.AddMember(ctx, n.id); err != nil {
				v.t.Fatal(err)
			}
			cancel()
		}
		v.join(n)
	}
	v.until("all vote", func() bool {
		voters := 0
		for _, m := range v.nodes["n1"].registry.Members() {
			if m.Voter {
				voters++
			}
		}
		return voters == min((nodes-1)|1, 5)
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := v.nodes["n1"].registry.CreateActor(ctx, registry.CreateActor{Name: "a", ID: "1"}); err != nil {
		v.t.Fatal(err)
	}
	for _, n := range v.nodes {
		v.until("the actor is known", func() bool { _, ok := n.registry.View().Actor("a"); return ok })
	}
}

// down ends a node, which looks like a crash to the others.
func (v *virtual) down(id registry.NodeID) {
	v.t.Helper()
	v.mu.Lock()
	n := v.nodes[id]
	n.died = true
	delete(v.nodes, id)
	v.mu.Unlock()
	v.network.Isolate(hostOf(id))
	n.end()
	if err := n.close(); err != nil {
		v.t.Errorf("%s: %v", id, err)
	}
	v.network.Rejoin(hostOf(id))
}

// checkServing fails the test unless every node can own a session, and every other node
// agrees.
func (v *virtual) checkServing() {
	v.t.Helper()
	for _, n := range v.nodes {
		last := ""
		defer func() {
			if v.t.Failed() {
				v.t.Logf("%s: the last answer was %s", n.id, last)
			}
		}()
		v.until("every node serves", func() bool {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			name := fmt.Sprint("own ", n.id, " ", n.life())
			key := surfaces.SessionKey{Actor: "a", Language: surfaces.Python, ID: 100*int(n.id[1]-'0') + int(n.life())}
			out, err := n.registry.ClaimSession(ctx, registry.ClaimSession{Key: key, Name: name, Owner: n.id, Incarnation: n.life()})
			if err != nil || out.Result != registry.Claimed && out.Result != registry.AlreadyOwned {
				last = fmt.Sprintf("%+v, %v", out, err)
				return false
			}
			for _, other := range v.nodes {
				res, err := other.exec(map[string]any{
					"language": "python", "state_mode": "stateful", "session_name": name, "timeout_s": 5, "code": "append own x 1",
				})
				last = fmt.Sprintf("%+v; to %s: %s", out.Session, other.id, brief(res))
				if err != nil || res.Code != nil || res.Node != string(n.id) {
					return false
				}
			}
			return true
		})
	}
}

// stop ends all nodes.
func (v *virtual) stop() {
	for _, n := range v.nodes {
		n.end()
		if err := n.close(); err != nil {
			v.t.Errorf("%s: %v", n.id, err)
		}
	}
	time.Sleep(time.Minute) // for packets that are still in flight
}

func (v *virtual) until(what string, holds func() bool) {
	v.t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			v.t.Fatalf("not in time: %s", what)
		}
	}
}

// at returns a node if it runs.
func (v *virtual) at(id registry.NodeID) *virtualNode {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.nodes[id]
}
