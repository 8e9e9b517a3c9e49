package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// Registry is this node's replica of the registry. It is safe for concurrent use.
type Registry struct {
	config        Config
	log           *slog.Logger
	raft          *raft.Raft
	machine       *machine
	dir           *directory // the log and the snapshots
	transport     raft.Transport
	lead          *leadership // whether this node leads, and may serve reads
	health        *health     // of the members, as the leader sees it
	leases        leaseTable  // of the nodes, while this node leads
	confirmer     confirmer
	loads         atomic.Pointer[reportedLoads] // of the nodes, as the leader last reported
	commitSenders sync.WaitGroup                // of members, of what is committed

	ours  atomic.Bool   // the state is known to be that of the configured cluster
	slots chan struct{} // one per request in flight

	mu       sync.Mutex
	closing  bool           // set by Close: no request begins any more
	underway sync.WaitGroup // requests that have begun
	closed   func() error
}

// Open opens the registry in a directory. Only a fresh directory without Config.Join becomes
// a new cluster of one voter; a damaged one never does. If this node is the only voter, Open
// returns once it leads and has applied its whole log, or ctx ends; otherwise it does not
// wait for other nodes. Errors are ErrLocked, ErrDamaged, ErrWrongNode, ErrWrongCluster,
// ErrNewerLevel, those of ctx, and those of the file system.
func Open(ctx context.Context, c Config) (*Registry, error) {
	given := c.Layer
	c, err := c.validate()
	if err != nil {
		return nil, errors.Join(err, closeLayer(given))
	}
	dir, err := openDirectory(c.Dir, c.NodeID, raftLog{to: c.Log})
	if err != nil {
		return nil, errors.Join(err, closeLayer(given))
	}
	transport := c.transport()
	r, err := start(c, dir, transport)
	if err != nil {
		return nil, errors.Join(err, closeTransport(transport), dir.store.Close())
	}
	if err := r.begin(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// start starts raft on a directory.
func start(c Config, dir *directory, transport raft.Transport) (*Registry, error) {
	lead := newLeadership()
	conf := c.raft(lead.notify)
	if dir.fresh && !c.Join {
		if err := dir.bootstrap(conf, transport); err != nil {
			return nil, err
		}
	}
	r := &Registry{
		config: c, log: c.Log, machine: newMachine(c.Log, c.level), dir: dir, transport: transport,
		lead: lead, health: newHealth(), slots: make(chan struct{}, maxInFlight),
	}
	r.leases.restart(0)
	r.confirmer.rest = func() {}
	r.closed = sync.OnceValue(r.shutdown)
	var err error
	if r.raft, err = r.newRaft(conf); err != nil {
		return nil, err
	}
	r.raft.RegisterObserver(lead.observer())
	go lead.follow(r.raft, c.Log, r.leaderTasks)
	return r, nil
}

// newRaft starts raft, which reads the snapshot and the log. raft panics on a gap in the log,
// and silently falls back to an older snapshot if the newest cannot be restored; here both
// are errors.
func (r *Registry) newRaft(conf *raft.Config) (started *raft.Raft, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			started, err = nil, fmt.Errorf("%w: %v", ErrDamaged, fault)
		}
	}()
	watched := &restoreWatch{machine: r.machine}
	started, err = raft.NewRaft(conf, watched, r.dir.store, r.dir.store, r.dir.snapshots, r.transport)
	switch {
	case r.machine.behind() != nil:
		err = r.machine.behind()
	case watched.failed.Load() != nil:
		err = fmt.Errorf("%w: %w", ErrDamaged, *watched.failed.Load())
	case err != nil:
		err = fmt.Errorf("registry: %w", err)
	}
	if err != nil && started != nil {
		err = errors.Join(err, started.Shutdown().Error())
	}
	return started, err
}

// restoreWatch remembers that a snapshot could not be restored.
type restoreWatch struct {
	*machine
	failed atomic.Pointer[error]
}

func (w *restoreWatch) Restore(from io.ReadCloser) error {
	err := w.machine.Restore(from)
	if err != nil {
		w.failed.Store(&err)
	}
	return err
}

// begin waits, if this node is the only voter, until it leads and is up to date. It then
// gives a new mesh its identity.
func (r *Registry) begin(ctx context.Context) error {
	if err := r.Health(); err != nil {
		return err
	}
	self := raft.ServerID(r.dir.owner)
	if !r.onlyVoter() {
		return nil
	}
	// No other node can be the leader, so start an election at once. If this fails, the
	// election timeout starts one later.
	var answer raft.TimeoutNowResponse
	if err := r.transport.TimeoutNow(self, r.transport.LocalAddr(), r.timeoutNow(), &answer); err != nil {
		r.log.Warn("could not start an election at once", "error", err)
	}
	if err := r.AwaitLeading(ctx); err != nil {
		return err
	}
	if err := r.Health(); err != nil {
		return err
	}
	if err := r.announceRecovery(ctx); err != nil {
		return err
	}
	if r.View().ClusterID() != "" {
		return nil
	}
	id := r.config.ClusterID
	if id == "" {
		id = NewRequestID().String()
	}
	_, err := propose[initOutcome](ctx, r, initCluster{ID: id, Level: r.machine.knows, Lease: r.config.Lease})
	return err
}

// announceRecovery invalidates, after a disaster recovery, the incarnations and epochs of
// before. Doing it twice is harmless, because no other node has seen the state yet.
func (r *Registry) announceRecovery(ctx context.Context) error {
	due, err := r.dir.store.recovered()
	if err != nil || !due {
		return err
	}
	out, err := propose[recoverOutcome](ctx, r, recoverMesh{})
	if err != nil {
		return err
	}
	r.log.Warn("the mesh was recovered from one node", "recovery", out.Recovery, "sessions_lost", out.Lost)
	return r.dir.store.setRecovered(false)
}

func (r *Registry) onlyVoter() bool {
	for _, s := range r.servers() {
		if s.Suffrage == raft.Voter && NodeID(s.ID) != r.dir.owner {
			return false
		}
	}
	return r.voters() == 1
}

// timeoutNow is the message that makes a voter start an election at once. raft ignores
// messages without its protocol version.
func (r *Registry) timeoutNow() *raft.TimeoutNowRequest {
	return &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{
		ProtocolVersion: raft.ProtocolVersionMax,
		ID:              []byte(r.dir.owner),
		Addr:            []byte(r.transport.LocalAddr()),
	}}
}

// View returns the current state as this node knows it.
func (r *Registry) View() View { return View{r.machine.now.Load()} }

// Leading reports whether this node is the leader and has applied everything that earlier
// leaders committed. It is a hint: after a pause a node may not have noticed yet that it is
// no longer the leader.
func (r *Registry) Leading() bool { return r.lead.is() }

// AwaitLeading waits until Leading is true.
func (r *Registry) AwaitLeading(ctx context.Context) error { return r.lead.await(ctx, r.lead.is) }

// Leader returns the leader that this node knows, or "".
func (r *Registry) Leader() NodeID {
	_, id := r.raft.LeaderWithID()
	return NodeID(id)
}

// Health returns nil while the log can be written and belongs to the right mesh. After a
// failed write it returns that failure for good: the node must be restarted. It returns
// ErrWrongCluster if the state is not of the mesh in Config, and ErrNewerLevel if the mesh has
// reached a feature level that this release does not support.
func (r *Registry) Health() error {
	if err := errors.Join(r.dir.store.healthy(), r.machine.behind()); err != nil {
		return err
	}
	if r.config.ClusterID == "" || r.ours.Load() {
		return nil
	}
	switch id := r.View().ClusterID(); id {
	case r.config.ClusterID:
		r.ours.Store(true)
	case "":
	default:
		return fmt.Errorf("%w: it is %s, this is %s", ErrWrongCluster, id, r.config.ClusterID)
	}
	return nil
}

// Close stops accepting commands, waits shortly for those in flight, and shuts down. It is
// idempotent. Views stay valid.
func (r *Registry) Close() error { return r.closed() }

// shutdown stops the parts in an order in which none waits for one that is already gone:
// commands, raft, its transport, the goroutines that use raft, the files.
func (r *Registry) shutdown() error {
	r.mu.Lock()
	r.closing = true
	r.mu.Unlock()
	r.drained(drainTimeout)

	stopped := r.raft.Shutdown()
	ended := make(chan error, 1)
	go func() { ended <- errors.Join(closeTransport(r.transport), stopped.Error()) }()
	select {
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("registry: stop: %w", err)
		}
	case <-time.After(closeTimeout):
		return errors.New("registry: raft did not stop; its files stay open")
	}
	r.lead.stop()
	r.commitSenders.Wait()
	if !r.drained(drainTimeout) {
		r.log.Warn("commands were still in flight when the registry closed")
	}
	return r.dir.store.Close()
}

// drained waits until no command is in flight, for a bounded time, and reports success.
func (r *Registry) drained(within time.Duration) bool {
	none := make(chan struct{})
	go func() {
		r.underway.Wait()
		close(none)
	}()
	select {
	case <-none:
		return true
	case <-time.After(within):
		return false
	}
}

func closeLayer(l StreamLayer) error {
	if l == nil {
		return nil
	}
	return l.Close()
}

func closeTransport(t raft.Transport) error {
	if c, ok := t.(raft.WithClose); ok {
		return c.Close()
	}
	return nil
}
