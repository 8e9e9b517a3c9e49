package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/mesh/faultnet"
	"github.com/locusrun/locus/node/calls"
	"github.com/locusrun/locus/node/engine"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/peer"
	"github.com/locusrun/locus/placement"
	"github.com/locusrun/locus/placement/history"
	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// virtual is a whole mesh in virtual time: real nodes, with all that is theirs but
// the doors, the enrolment and the processes under the code.
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

// up starts a node, on the directory that it had before. The first makes the mesh.
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
		Local: engineProxy{n.Node}, Mine: n.ownsRoute, Stop: n.stopHere, Standing: n.runState, Grace: func() time.Duration { return 13 * time.Second }, Find: n.heldRecord, Log: cfg.Log,
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

// inMemory gives a directory that is synced at once where the machine has one:
// nothing here survives a loss of power.
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

// enters makes a node that was started a part of the mesh.
func (v *virtual) enters(n *virtualNode) {
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

// grow makes a mesh of so many nodes, of which up to five vote.
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
		v.enters(n)
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

// down ends a node, as a crash would as far as others can see.
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

// serves fails the test unless every node can own a session, as any other sees it.
func (v *virtual) serves() {
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
	time.Sleep(time.Minute) // what is still on its way
}

func (v *virtual) until(what string, holds func() bool) {
	v.t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			v.t.Fatalf("not in time: %s", what)
		}
	}
}

// at gives a node while it runs.
func (v *virtual) at(id registry.NodeID) *virtualNode {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.nodes[id]
}

// exec runs a call on a node to its end.
func (n *virtualNode) exec(body map[string]any) (surfaces.Result, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return surfaces.Result{}, err
	}
	e := n.Start(context.Background(), gateway.Caller{Actor: "a"}, b)
	<-e.Done()
	return e.Result(), nil
}

// client calls a node again and again until stop is closed.
func (v *virtual) client(id registry.NodeID, number int, random *rand.Rand, stop <-chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(random.IntN(150)) * time.Millisecond):
		}
		if n := v.at(id); n != nil {
			v.call(n, number, i, random)
		}
	}
}

// virtualSlack is how long after its deadline an answer may come at most: a node that
// is cut off under a call is known to be so after mesh's longest silence, or after
// lease and grace, and its sessions' clocks stand still meanwhile.
const virtualSlack = 1500*time.Millisecond + mesh.DefaultMaxIdle + mesh.DefaultKeepAlive

func (v *virtual) call(n *virtualNode, number, i int, random *rand.Rand) {
	h := history.Call{Client: number, Session: fmt.Sprint("s", random.IntN(2)), Token: fmt.Sprintf("%d.%d", number, i)}
	timeout := []float64{1, 3, 15}[random.IntN(3)]
	body := map[string]any{"language": "python", "state_mode": "stateful", "session_name": h.Session, "timeout_s": timeout}
	session := h.Session
	switch p := random.IntN(10); {
	case p < 3:
		h.Read = true
		body["state_mode"], body["code"] = "read_only", "read"
	case p == 3:
		h.Session, session = "", "-"
		delete(body, "session_name")
		body["state_mode"] = "stateless"
	}
	if !h.Read {
		onLoss := []string{"retry", "retry", "not_started", "report"}[random.IntN(4)]
		h.Once = onLoss != "retry"
		steps := random.IntN(30)
		if random.IntN(20) == 0 {
			steps = 600 // longer than a lease
		}
		body["on_loss"], body["code"] = onLoss, fmt.Sprintf("append %s %s %d", session, h.Token, steps)
	}
	h.Invoked = v.kernels.now()
	res, err := n.exec(body)
	h.Returned = v.kernels.now()
	if err != nil {
		v.t.Error(err)
		return
	}
	if took := time.Duration(h.Returned - h.Invoked); took > time.Duration(timeout*float64(time.Second))+virtualSlack {
		v.t.Errorf("%s was answered after %s, with a deadline of %vs: %s", h.Token, took, timeout, brief(res))
	}
	v.judge(&h, res)
	v.mu.Lock()
	defer v.mu.Unlock()
	if n.died && h.Outcome == history.Answered {
		// Nobody heard this answer of a node that crashed.
		h.Outcome, h.List, h.Generation, h.Told = history.Unknown, nil, "", false
	}
	v.calls = append(v.calls, h)
	code := "done"
	if res.Code != nil {
		code = string(*res.Code)
	}
	v.codes[code]++
}

func brief(res surfaces.Result) string {
	code, message := "", ""
	if res.Code != nil {
		code, message = string(*res.Code), *res.Error
	}
	return fmt.Sprintf("%s %s %.300s on %s attempts=%d lost=%+v: %s", res.Status, code, res.Result, res.Node, res.Attempts, res.StateLost.Loss, message)
}

// judge turns an answer into what it says of the code's fate.
func (v *virtual) judge(h *history.Call, res surfaces.Result) {
	h.Told, h.Attempts, h.Text = res.StateLost.Loss != nil, res.Attempts, brief(res)
	if res.Code == nil {
		h.Outcome = history.Answered
		var seen [2]json.RawMessage
		if json.Unmarshal(res.Result, &seen) != nil || json.Unmarshal(seen[0], &h.Generation) != nil || json.Unmarshal(seen[1], &h.List) != nil {
			v.t.Errorf("%s gave %s", h.Token, h.Text)
		}
		return
	}
	switch *res.Code {
	case surfaces.CodeOwnerUnreachable, surfaces.CodeNoQuorum, surfaces.CodeNoCapacity, surfaces.CodeSessionNotFound:
		h.Outcome = history.Nothing
	case surfaces.CodeSessionLost:
		h.Outcome = history.Unknown
		if h.Read {
			h.Outcome = history.Lost
		}
	case surfaces.CodeOutcomeUnknown, surfaces.CodeTimeout, surfaces.CodeKilled, surfaces.CodeStopped:
		h.Outcome = history.Unknown
	default:
		v.t.Errorf("%s: unexpected answer %s", h.Token, h.Text)
		h.Outcome = history.Unknown
	}
}

// virtualSeeds is how many seeds are tried, from LOCUS_SEED on.
func virtualSeeds(usual int) (all []uint64) {
	first, err := strconv.ParseUint(os.Getenv("LOCUS_SEED"), 10, 64)
	if err != nil {
		first = 1
	}
	if n, err := strconv.Atoi(os.Getenv("LOCUS_SOAK")); err == nil {
		usual *= n
	}
	for i := range usual {
		all = append(all, first+uint64(i))
	}
	return all
}

// A whole mesh, broken by a seed in every way that a network can be, and by crashes,
// keeps its promises to the clients on all nodes.
func TestAMeshInVirtualTime(t *testing.T) {
	for _, seed := range virtualSeeds(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { inVirtualTime(t, seed) })
		})
	}
}

func inVirtualTime(t *testing.T, seed uint64) {
	v := newVirtual(t, seed)
	random := v.random
	nodes := 3 + 2*random.IntN(2)
	v.grow(nodes)
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for i := 1; i <= nodes; i++ {
		own := rand.New(rand.NewPCG(seed, uint64(100+i)))
		clients.Go(func() { v.client(registry.NodeID(fmt.Sprint("n", i)), i, own, stop) })
	}
	some := func() registry.NodeID { return registry.NodeID(fmt.Sprint("n", 1+random.IntN(nodes))) }
	for range 8 {
		time.Sleep(time.Duration(300+random.IntN(2000)) * time.Millisecond)
		victim := v.victim(some)
		lasts := time.Duration(300+random.IntN(7000)) * time.Millisecond
		down := false
		switch random.IntN(7) {
		case 0, 1:
			v.network.Isolate(hostOf(victim))
		case 2, 3: // one way
			for i := 1; i <= nodes; i++ {
				if other := registry.NodeID(fmt.Sprint("n", i)); other == victim {
					continue
				} else if random.IntN(2) == 0 {
					v.network.CutOneWay(hostOf(victim), hostOf(other))
				} else {
					v.network.CutOneWay(hostOf(other), hostOf(victim))
				}
			}
		case 4:
			v.network.SetUsual(faultnet.Link{Delay: 5 * time.Millisecond, Jitter: 60 * time.Millisecond, Drop: 0.2, Duplicate: 0.1})
		case 5:
			v.network.Isolate(hostOf(victim))
			v.network.Isolate(hostOf(some()))
		case 6:
			v.down(victim)
			down = true
		}
		time.Sleep(lasts)
		v.network.HealAll()
		v.network.SetUsual(faultnet.Link{Delay: time.Millisecond})
		if down {
			v.enters(v.up(victim))
		}
	}
	close(stop)
	clients.Wait()
	v.judgeAll(seed)
	v.serves()
}

// victim gives the owner of a session, or the leader, or any node.
func (v *virtual) victim(some func() registry.NodeID) registry.NodeID {
	v.mu.Lock()
	defer v.mu.Unlock()
	for id, n := range v.nodes {
		if n.registry.Leading() && v.random.IntN(2) == 0 {
			return id
		}
	}
	if n := v.nodes["n1"]; n != nil {
		if all := n.registry.View().SessionsOf("a"); len(all) > 0 {
			return all[v.random.IntN(len(all))].Owner
		}
	}
	return some()
}

func (v *virtual) judgeAll(seed uint64) {
	v.t.Helper()
	v.kernels.mu.Lock()
	defer v.kernels.mu.Unlock()
	answered := 0
	for _, h := range v.calls {
		if h.Outcome == history.Answered {
			answered++
		}
	}
	v.t.Logf("%d calls, %d answered: %v", len(v.calls), answered, v.codes)
	wrong := history.Check(v.calls, v.kernels.marks, time.Hour)
	for _, w := range wrong {
		v.t.Errorf("seed %d: %s", seed, w)
	}
	if len(wrong) > 0 && testing.Verbose() {
		for _, h := range v.calls {
			v.t.Logf("%d..%d %s %s once=%v %s", h.Invoked/1e6, h.Returned/1e6, h.Session, h.Token, h.Once, h.Text)
		}
	}
	if answered < 50 {
		v.t.Errorf("seed %d: only %d calls were answered", seed, answered)
	}
}
