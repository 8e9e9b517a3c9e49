package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/locusrun/locus/agentlink"
	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/node/audit"
	"github.com/locusrun/locus/node/calls"
	"github.com/locusrun/locus/node/engine"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/peer"
	"github.com/locusrun/locus/node/primitives/mcpserver"
	"github.com/locusrun/locus/placement"
	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

const (
	openLimit = 30 * time.Second
	findLimit = 20 * time.Second
)

// Node is one running node. It is the service behind the gateway.
type Node struct {
	cfg       Config
	id        registry.NodeID
	started   time.Time
	http      string
	advertise string
	network

	haveRegistry     chan struct{} // closed once registry and what depends on it are set
	registry         *registry.Registry
	lease            atomic.Pointer[registry.Lease]
	runtimes         *runtimes
	memory           *memory
	environments     *environments
	engine           *engine.Engine
	placement        *placement.Placement
	keys             *calls.Keys
	calls            *calls.Table
	serving          *peer.Server
	link             *agentlink.Hub // with linked machines
	routes           routes
	events           events
	functions        functionRunner
	servers          *mcpserver.Pool // of primitives
	audit            *audit.Log
	entries          atomic.Int64 // entries added to the audit log, without the recorded heads of other logs
	witnessedEntries int64        // entries when the head was last sent to other nodes
	traces           traces

	ctx      context.Context // ends when the node does; calls run under it
	work     sync.WaitGroup  // the node's background goroutines
	mu       sync.Mutex
	draining bool
	// stoppingCalls is set when calls are being stopped because the node shuts down.
	stoppingCalls atomic.Bool
}

// Run runs a node until ctx ends, then drains it and returns. The error is nil after such a
// shutdown.
func Run(ctx context.Context, cfg Config) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	if err := cfg.directories(); err != nil {
		return err
	}
	http, err := net.Listen("tcp", cfg.HTTPAddr)
	if err != nil {
		return fmt.Errorf("open the HTTP door: %w", err)
	}
	defer http.Close()
	addr, err := net.ResolveUDPAddr("udp", cfg.ListenAddr)
	if err != nil {
		return fmt.Errorf("open the mesh's address: %w", err)
	}
	udp, err := net.ListenUDP("udp", addr)
	if err != nil {
		return fmt.Errorf("open the mesh's address: %w", err)
	}
	return serve(ctx, cfg, http, udp)
}

func serve(ctx context.Context, cfg Config, http net.Listener, udp *net.UDPConn) error {
	// Calls must outlive the start of the shutdown: they end at the end of the drain.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	n := &Node{
		cfg: cfg, started: time.Now().UTC(), http: http.Addr().String(), ctx: life,
		haveRegistry: make(chan struct{}),
	}
	n.events.boot = n.started.UnixMilli()
	// Requests to a node that is starting are refused at once: it may wait for its mesh for
	// as long as there is no majority.
	started := make(chan struct{})
	front := gateway.New(gateway.Config{Service: auditedService{n}, Started: started, Log: cfg.Log, Version: cfg.Version, DrainTimeout: cfg.Drain + stopNoticeLimit})
	serving := make(chan error, 1)
	open, shut := context.WithCancel(ctx)
	defer shut()
	go func() { serving <- front.Serve(open, http) }()
	err := n.open(ctx, udp)
	if err == nil {
		if err = certs.ReplaceFile(cfg.path(AddressFile), []byte(n.http+"\n")); err != nil {
			err = fmt.Errorf("node: %w", err)
		}
	}
	if err != nil {
		shut()
		err = errors.Join(err, <-serving)
		end()
		return errors.Join(err, n.close())
	}
	defer os.Remove(cfg.path(AddressFile))
	close(started)
	n.events.publish("node_ready", map[string]string{"node": string(n.id), "http": n.http})
	cfg.Log.Info("node ready", "node", n.id, "http", n.http, "listen", n.advertise, "life", n.life())
	if cfg.Ready != nil {
		cfg.Ready(n.http, n.advertise, string(n.id))
	}
	n.work.Go(n.prewarm)
	n.work.Go(n.sweep)
	n.work.Go(func() { n.environments.collectLoop(n.ctx) })
	n.work.Go(func() { n.runtimes.closeUnusedLoop(n.ctx) })
	n.work.Go(func() { n.watchMemory(n.ctx) })
	n.work.Go(func() { n.witnessLoop(n.ctx) })
	if n.cfg.SessionIdle > 0 {
		n.work.Go(func() { n.engine.ReapIdle(n.ctx, n.cfg.SessionIdle) })
	}

	err = n.serveUntilDrained(ctx, serving)
	end()
	return errors.Join(err, n.close())
}

// serveUntilDrained waits until the gateway has shut down, which happens when ctx has ended and the
// calls in flight have ended or used up their drain time.
func (n *Node) serveUntilDrained(ctx context.Context, serving <-chan error) error {
	select {
	case err := <-serving:
		if ctx.Err() == nil {
			return fmt.Errorf("the HTTP server failed: %w", err)
		}
		return err
	case <-ctx.Done():
	}
	n.mu.Lock()
	n.draining = true
	n.mu.Unlock()
	n.cfg.Log.Info("node draining", "node", n.id)
	n.events.publish("node_draining", map[string]string{"node": string(n.id)})
	// Attempts for other nodes drain at the same time as the gateway.
	n.mesh.Drain()
	n.link.Drain()
	n.drainCalls()
	err := <-serving
	last, cancel := context.WithTimeout(context.Background(), guestDrainLimit)
	defer cancel()
	n.link.AwaitMoved(last)
	n.serving.Wait(last)
	return err
}

// stopNoticeLimit is how long the gateway has to send the results of calls that were stopped
// by the shutdown.
const stopNoticeLimit = 5 * time.Second

// drainCalls waits for the calls with records on this node, followed or not, and stops those
// left when the drain time is over. Their callers get that result now; later nobody could
// tell them.
func (n *Node) drainCalls() {
	ctx, cancel := context.WithTimeout(context.Background(), n.cfg.Drain)
	defer cancel()
	for _, r := range n.calls.Running() {
		select {
		case <-r.Done():
		case <-ctx.Done():
		}
	}
	n.stoppingCalls.Store(true)
	for _, r := range n.calls.Running() {
		n.work.Go(func() { n.stopUntilEnded(r) })
	}
}

// guestDrainLimit bounds the wait for attempts of other nodes' calls after the gateway has shut
// down.
const guestDrainLimit = 5 * time.Second

// open starts everything behind the gateway.
func (n *Node) open(ctx context.Context, udp *net.UDPConn) error {
	var err error
	if n.runtimes, err = newRuntimes(n.cfg); err != nil {
		return errors.Join(err, udp.Close())
	}
	n.memory = n.newMemory()
	if n.keys, err = calls.OpenKeys(n.cfg.path("keys.db")); err != nil {
		return errors.Join(err, udp.Close())
	}
	n.calls = calls.NewTable()
	if err := n.connect(ctx, udp); err != nil {
		return err
	}
	if err := n.openAudit(); err != nil {
		return err
	}
	if n.traces, err = openTraces(ctx, n.cfg, string(n.id)); err != nil {
		return err
	}
	conf := n.cfg.registryConfig()
	conf.NodeID, conf.ClusterID, conf.Join = n.id, n.member.Cluster(), !n.member.IsFounding()
	conf.Layer, conf.Forward = n.raft, n.forward
	opening, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	if n.registry, err = registry.Open(opening, conf); err != nil {
		return err
	}
	store, err := n.cfg.openStore(n.runtimes.python)
	if err != nil {
		return err
	}
	n.environments = &environments{id: n.id, store: store, registry: n.registry, log: n.cfg.Log}
	n.runtimes.environment = n.environments.ready
	n.engine = engine.New(engine.Config{
		Node: string(n.id), Kernels: n.runtimes, Log: n.cfg.Log, Lost: n.sessionLost, Serving: n.mayServe, Room: n.memory.room,
		Late: func(callID, _ string, p []byte) { n.calls.Late(callID, p); n.serving.Late(callID, p) },
	})
	n.servers = mcpserver.NewPool(n.cfg.Log)
	n.placement = placement.New(placement.Config{
		Registry: n.registry, Node: n.id, At: n.surfaceOf, Load: n.loadOf, MaxRunning: engine.DefaultMaxRunning, Machines: n.link, Log: n.cfg.Log,
	})
	n.functions = storedFunctions{n}
	n.member.Attach(n.mesh, n.registry)
	close(n.haveRegistry)
	if err := n.joinMesh(ctx); err != nil {
		return err
	}
	n.work.Go(func() { n.member.Run(n.ctx) })
	n.work.Go(func() { n.serveLease(n.ctx) })
	n.work.Go(func() { n.reconcile(n.ctx) })
	n.work.Go(func() { n.link.Run(n.ctx) })
	return n.defaultActor(ctx)
}

// waitNotice is how often the log says what the node is waiting for.
const waitNotice = 5 * time.Second

// knownOthers lists the other nodes of the mesh with their last known addresses.
func (n *Node) knownOthers() (others []string) {
	for _, other := range n.member.Nodes() {
		if other.ID != string(n.id) {
			others = append(others, other.ID+" at "+other.Addr)
		}
	}
	return others
}

// joinMesh makes the node part of its mesh: it waits for a leader without a time limit,
// registers a life and waits for its lease.
func (n *Node) joinMesh(ctx context.Context) error {
	if n.member.IsJoining() {
		if err := n.requestMembership(ctx); err != nil {
			return err
		}
	}
	for {
		waiting, cancel := context.WithTimeout(ctx, waitNotice)
		_, err := n.registry.AwaitLeader(waiting)
		if err == nil {
			err = n.register(waiting)
		}
		if err == nil {
			err = n.lease.Load().Await(waiting)
		}
		cancel()
		switch {
		case err == nil:
			return errors.Join(n.takeLabels(ctx), n.member.MarkEstablished())
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case n.registry.Health() != nil:
			return n.registry.Health()
		}
		if cut := n.member.CheckAccepted(ctx, n.mesh); cut != nil {
			return cut
		}
		n.cfg.Log.Warn("waiting for the mesh: most of its voters cannot be reached", "error", err, "tried", n.knownOthers(),
			"advice", "start the other nodes; if they run, and all of the mesh has got new addresses, start them again with --join "+n.advertise)
	}
}

// requestMembership waits until the mesh's registry has this node as a member.
func (n *Node) requestMembership(ctx context.Context) error {
	for round := 0; ; round++ {
		waiting, cancel := context.WithTimeout(ctx, waitNotice)
		err := n.askAdmission(waiting, round)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n.cfg.Log.Warn("waiting for the mesh to take this node in", "error", err, "known", n.member.Addresses())
		select {
		case <-time.After(admissionRetry):
		case <-ctx.Done():
		}
	}
}

const admissionRetry = 500 * time.Millisecond

// close stops what open has started, also after a failed open. What answers other nodes
// ends before the mesh that carries the answers.
func (n *Node) close() error {
	var err error
	if n.serving != nil {
		n.serving.Stop() // before the kernels they run in are closed
	}
	if n.engine != nil {
		n.engine.Close()
	}
	if n.serving != nil {
		n.serving.Close()
	}
	if n.link != nil {
		n.link.Drain()
	}
	n.work.Wait()
	if n.servers != nil {
		err = errors.Join(err, n.servers.Close())
	}
	if l := n.lease.Load(); l != nil {
		<-l.Done()
		ctx, cancel := context.WithTimeout(context.Background(), leaveLimit)
		if gone := n.leave(ctx, l); gone != nil {
			n.cfg.Log.Info("the mesh could not be told of the shutdown; it will notice", "error", gone)
		}
		cancel()
	}
	if n.runtimes != nil {
		n.runtimes.close()
	}
	if n.environments != nil {
		err = errors.Join(err, n.environments.store.Close())
	}
	if n.keys != nil {
		err = errors.Join(err, n.keys.Close())
	}
	if g := n.gossip.Load(); g != nil {
		err = errors.Join(err, g.Close())
	}
	if n.registry != nil {
		err = errors.Join(err, n.registry.Close())
	}
	if n.mesh != nil {
		err = errors.Join(err, n.mesh.Close())
	}
	n.gossipJoin.Wait()
	n.closeAudit()
	n.traces.close()
	return err
}

const leaveLimit = 3 * time.Second

// leave announces the shutdown, so that the others need not wait for a time-out of this
// node's sessions, leadership or gossip.
func (n *Node) leave(ctx context.Context, lease *registry.Lease) error {
	if len(n.others()) == 0 {
		return nil
	}
	err := errors.Join(lease.Release(ctx), n.registry.TransferLeadership(ctx))
	if g := n.gossip.Load(); g != nil {
		err = errors.Join(err, g.Leave(ctx))
	}
	return err
}

// prewarm starts the default actor's Python in advance of the first call.
func (n *Node) prewarm() {
	ctx, cancel := context.WithTimeout(n.ctx, openLimit)
	defer cancel()
	f, err := n.runtimes.ensureFamily(ctx, DefaultActor, familyKey{language: surfaces.Python}, nil)
	switch {
	case err == nil:
		f.release()
	case n.ctx.Err() == nil:
		n.cfg.Log.Warn("python could not be started ahead of the first call", "error", err)
	}
}

// sweepEvery is the interval for dropping old keys, ended calls and audit files.
const sweepEvery = time.Hour

func (n *Node) sweep() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			if err := n.keys.Sweep(now); err != nil {
				n.cfg.Log.Error("old idempotency keys could not be dropped", "error", err)
			}
			n.calls.Sweep(now)
			n.serving.Sweep(now)
			n.audit.Maintain()
		case <-n.ctx.Done():
			return
		}
	}
}

// lossRecordWait bounds how long lost waits for the registry; the report itself goes on.
const lossRecordWait = 200 * time.Millisecond

// sessionLost reports a session whose process has died. The engine calls it.
func (n *Node) sessionLost(l engine.LostSession) {
	n.events.publish("session_lost", map[string]any{
		"actor": l.Key.Actor, "language": l.Key.Language, "session_id": l.Key.ID, "epoch": l.Epoch, "reason": l.Reason,
	})
	grant, recorded := registry.Grant{Node: n.id, Incarnation: n.life(), Epoch: registry.Epoch(l.Epoch)}, make(chan struct{})
	n.work.Go(func() {
		defer close(recorded)
		ctx, cancel := context.WithTimeout(n.ctx, openLimit)
		defer cancel()
		n.placement.RecordLoss(ctx, l.Key, grant, l.Reason)
	})
	// The loss may have been found by a call, whose deadline is running.
	select {
	case <-recorded:
	case <-time.After(lossRecordWait):
	}
}
