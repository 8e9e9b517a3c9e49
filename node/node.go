package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/locusrun/locus/node/calls"
	"github.com/locusrun/locus/node/engine"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/placement"
	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

const (
	openLimit = 30 * time.Second
	findLimit = 20 * time.Second
)

// Node is one running node. It is the service behind every door.
type Node struct {
	cfg         Config
	id          registry.NodeID
	incarnation registry.Incarnation
	started     time.Time
	http        string
	listen      string

	registry  *registry.Registry
	homes     *homes
	engine    *engine.Engine
	placement *placement.Placement
	keys      *calls.Keys
	calls     *calls.Table
	events    events

	ctx      context.Context // ends when the node does; calls run under it
	work     sync.WaitGroup  // what the node does beside its callers' goroutines
	mu       sync.Mutex
	draining bool
}

var _ gateway.Service = (*Node)(nil)

// Run runs a node until ctx ends, drains it and returns. It returns nil after a
// shutdown that ctx asked for.
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
	// The mesh's address is taken from the start, so that it is this node's when
	// others join; a mesh of one has nothing to say on it.
	udp, err := net.ListenPacket("udp", cfg.ListenAddr)
	if err != nil {
		return fmt.Errorf("open the mesh's address: %w", err)
	}
	defer udp.Close()
	return serve(ctx, cfg, http, udp.LocalAddr().String())
}

func serve(ctx context.Context, cfg Config, http net.Listener, listen string) error {
	// Calls outlive the beginning of the shutdown: they end with their drain.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	n := &Node{cfg: cfg, started: time.Now().UTC(), http: http.Addr().String(), listen: listen, ctx: life}
	if err := n.open(ctx); err != nil {
		return errors.Join(err, n.close())
	}
	if err := writeFile(cfg.path(AddressFile), n.http+"\n"); err != nil {
		return errors.Join(fmt.Errorf("node: %w", err), n.close())
	}
	defer os.Remove(cfg.path(AddressFile))

	door := gateway.New(gateway.Config{Service: n, Log: cfg.Log, Version: cfg.Version})
	serving := make(chan error, 1)
	go func() { serving <- door.Serve(ctx, http) }()
	n.events.publish("node_ready", map[string]string{"node": string(n.id), "http": n.http})
	cfg.Log.Info("node ready", "node", n.id, "http", n.http, "listen", n.listen, "incarnation", n.incarnation)
	if cfg.Ready != nil {
		cfg.Ready(n.http, n.listen, string(n.id))
	}
	n.work.Go(n.warm)
	n.work.Go(n.sweep)

	err := n.drained(ctx, serving)
	end()
	return errors.Join(err, n.close())
}

// drained waits for the door to shut, which it does when ctx ends and what was
// running has had its time.
func (n *Node) drained(ctx context.Context, serving <-chan error) error {
	select {
	case err := <-serving:
		if ctx.Err() == nil {
			return fmt.Errorf("the HTTP door broke: %w", err)
		}
		return err
	case <-ctx.Done():
	}
	n.mu.Lock()
	n.draining = true
	n.mu.Unlock()
	n.cfg.Log.Info("node draining", "node", n.id)
	n.events.publish("node_draining", map[string]string{"node": string(n.id)})
	return <-serving
}

// open brings up everything behind the doors.
func (n *Node) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	id, _, err := kept(n.cfg.path(idFile), "node-")
	if err != nil {
		return fmt.Errorf("node: %w", err)
	}
	n.id = registry.NodeID(id)
	n.homes = newHomes(n.cfg)
	if n.registry, err = registry.Open(ctx, registry.Config{Dir: n.cfg.path("registry"), NodeID: n.id, Log: n.cfg.Log}); err != nil {
		return err
	}
	reg, err := n.registry.RegisterNode(ctx, registry.RegisterNode{
		ID: n.id, Addr: n.listen, Labels: n.cfg.Labels, Voter: true,
	})
	if err != nil {
		return err
	}
	n.incarnation = reg.Incarnation
	if reg.Lost > 0 {
		n.cfg.Log.Warn("sessions of the node's earlier life are lost", "sessions", reg.Lost)
	}
	if n.keys, err = calls.OpenKeys(n.cfg.path("keys.db")); err != nil {
		return err
	}
	n.calls = calls.NewTable(n.keys)
	n.engine = engine.New(engine.Config{
		Node: id, Kernels: n.homes, Log: n.cfg.Log, Lost: n.lost,
		Late: func(callID, _ string, p []byte) { n.calls.Late(callID, p) },
	})
	n.placement = placement.New(placement.Config{
		Registry: n.registry, Node: n.id, Incarnation: n.incarnation, Local: n.engine, Log: n.cfg.Log,
	})
	return n.defaultActor(ctx)
}

// close takes down what open brought up, as far as it came.
func (n *Node) close() error {
	var err error
	if n.engine != nil {
		err = n.engine.Close()
	}
	n.work.Wait()
	if n.homes != nil {
		n.homes.close()
	}
	if n.keys != nil {
		err = errors.Join(err, n.keys.Close())
	}
	if n.registry != nil {
		err = errors.Join(err, n.registry.Close())
	}
	return err
}

// warm starts the default actor's Python, so that the first call finds it ready.
func (n *Node) warm() {
	ctx, cancel := context.WithTimeout(n.ctx, openLimit)
	defer cancel()
	if _, err := n.homes.ready(ctx, DefaultActor, place{language: surfaces.Python}); err != nil && n.ctx.Err() == nil {
		n.cfg.Log.Warn("python could not be started ahead of the first call", "error", err)
	}
}

// sweepEvery is how often what is too old is dropped.
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
		case <-n.ctx.Done():
			return
		}
	}
}

// lost is told by the engine of each session whose process is gone.
func (n *Node) lost(l engine.LostSession) {
	n.events.publish("session_lost", map[string]any{
		"actor": l.Key.Actor, "language": l.Key.Language, "session_id": l.Key.ID, "epoch": l.Epoch, "reason": l.Reason,
	})
	ctx, cancel := context.WithTimeout(n.ctx, openLimit)
	defer cancel()
	n.placement.Lost(ctx, l.Key, l.Epoch, l.Reason)
}
