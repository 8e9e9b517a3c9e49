package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hashicorp/raft"
)

// Defaults of Config.
const (
	// DefaultHeartbeat is the heartbeat and election timeout.
	DefaultHeartbeat = time.Second
	// DefaultSnapshotEvery is after how many log entries a snapshot is taken.
	DefaultSnapshotEvery = 8192
	// DefaultTrailingLogs is how many log entries are kept behind a snapshot, so
	// that a voter which was away briefly need not take all of it.
	DefaultTrailingLogs = 4096
	// DefaultMaxVoters is how many nodes vote at most.
	DefaultMaxVoters = 5
	// DefaultStableFor is how long a node must be well before it becomes a voter.
	DefaultStableFor = 3 * time.Second
	// DefaultReplaceAfter is after how long a silent voter may be replaced.
	DefaultReplaceAfter = 5 * time.Minute
)

// Bounds on waits and on work under way. They change no replicated rule.
const (
	maxInFlight    = 1024
	enqueueTimeout = 5 * time.Second
	drainTimeout   = 2 * time.Second
	closeTimeout   = 10 * time.Second
	// leaderPatience is how long a command waits for a leader that can take it.
	leaderTimeout = 3 * time.Second
	// retryPause is the longest pause before a command is tried again when nothing
	// was heard of a new leader.
	retryPause = 100 * time.Millisecond
	poolSize   = 3
)

// Config says how to open a registry. Dir and NodeID are required.
type Config struct {
	// Dir holds the log and the snapshots. It is made if it is not there, and
	// belongs to one node for good.
	Dir string
	// NodeID is this node's id, the same at every opening of Dir.
	NodeID NodeID
	// Layer carries raft's streams to other nodes, by their node ids. The registry
	// closes it when it closes, or when opening fails. Nil is a mesh of one node.
	Layer StreamLayer
	// Forward carries one request to another node's Serve and brings the reply.
	// sent is false when the request surely did not reach it. Nil is enough for one
	// node alone: elsewhere commands then work on the leader only, nobody becomes a
	// voter, and no lease can be renewed.
	Forward func(ctx context.Context, to NodeID, request []byte) (reply []byte, sent bool, err error)
	// Join keeps a fresh directory from becoming a cluster of its own: the node
	// waits until an existing cluster adds it (AddMember).
	Join bool
	// ClusterID is given to the cluster that a fresh directory becomes; empty draws
	// one at random. Where it is given, the state of another cluster is refused with
	// ErrWrongCluster.
	ClusterID string
	// MaxVoters is how many nodes vote at most: 1, 3 or 5; 0 means DefaultMaxVoters.
	MaxVoters int
	// StableFor is how long another node must have answered without a gap before it
	// becomes a voter; 0 means DefaultStableFor.
	StableFor time.Duration
	// ReplaceAfter is after how long a silent voter loses its vote, when another
	// can take its place; 0 means DefaultReplaceAfter.
	ReplaceAfter time.Duration
	// Lease says how long a node may serve unseen. The one of the node that founds
	// the mesh holds for all of them.
	Lease LeaseConfig
	// Log takes what is worth a line. Nil drops it.
	Log *slog.Logger
	// Heartbeat is the heartbeat and election timeout; 0 means DefaultHeartbeat.
	// The leader's lease is half of it. At least 20 ms.
	Heartbeat time.Duration
	// SnapshotEvery and TrailingLogs count log entries; 0 means their defaults.
	SnapshotEvery uint64
	TrailingLogs  uint64

	level uint8 // the highest feature level that is known; 0 means this release's
}

// validate checks the configuration and fills in the defaults.
func (c Config) validate() (Config, error) {
	if c.Dir == "" {
		return c, errors.New("registry: Config.Dir is empty")
	}
	if !isToken(string(c.NodeID), maxText) {
		return c, fmt.Errorf("registry: Config.NodeID %q is not a text of 1 to %d bytes", c.NodeID, maxText)
	}
	if !isText(c.ClusterID, maxText) {
		return c, fmt.Errorf("registry: Config.ClusterID %q is not a text of up to %d bytes", c.ClusterID, maxText)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.level = cmp.Or(c.level, level)
	c.Heartbeat = cmp.Or(c.Heartbeat, DefaultHeartbeat)
	c.SnapshotEvery = cmp.Or(c.SnapshotEvery, DefaultSnapshotEvery)
	c.TrailingLogs = cmp.Or(c.TrailingLogs, DefaultTrailingLogs)
	c.MaxVoters = cmp.Or(c.MaxVoters, DefaultMaxVoters)
	c.StableFor = cmp.Or(c.StableFor, DefaultStableFor)
	c.ReplaceAfter = cmp.Or(c.ReplaceAfter, DefaultReplaceAfter)
	if c.Heartbeat < 20*time.Millisecond {
		return c, fmt.Errorf("registry: Config.Heartbeat is %s, at least 20ms", c.Heartbeat)
	}
	if c.MaxVoters != 1 && c.MaxVoters != 3 && c.MaxVoters != 5 {
		return c, fmt.Errorf("registry: Config.MaxVoters is %d, want 1, 3 or 5", c.MaxVoters)
	}
	if c.StableFor < 0 || c.ReplaceAfter < 0 {
		return c, errors.New("registry: Config.StableFor and ReplaceAfter cannot be negative")
	}
	var err error
	c.Lease, err = c.Lease.validate()
	return c, err
}

// transport is raft's transport: over the layer, or a loop for a node alone.
func (c Config) transport() raft.Transport {
	if c.Layer == nil {
		addr, t := raft.NewInmemTransport(raft.ServerAddress(c.NodeID))
		t.Connect(addr, t)
		return t
	}
	return raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: newStreams(c.Layer, c.NodeID), MaxPool: poolSize, Logger: raftLog{to: c.Log, limiter: &logLimiter{}},
		Timeout: max(time.Second, 3*c.Heartbeat), MsgpackUseNewTimeFormat: true,
	})
}

// raft gives raft's own configuration. notify must be drained, or raft stops.
func (c Config) raft(notify chan<- bool) *raft.Config {
	conf := raft.DefaultConfig()
	conf.LocalID = raft.ServerID(c.NodeID)
	conf.HeartbeatTimeout = c.Heartbeat
	conf.ElectionTimeout = c.Heartbeat
	conf.LeaderLeaseTimeout = c.Heartbeat / 2
	conf.CommitTimeout = c.Heartbeat / 2 // see commits.go
	conf.SnapshotThreshold = c.SnapshotEvery
	conf.TrailingLogs = c.TrailingLogs
	conf.ShutdownOnRemove = false // leaving is announced and handled by the node
	conf.NoLegacyTelemetry = true
	conf.NotifyCh = notify
	conf.Logger = raftLog{to: c.Log, limiter: &logLimiter{}}
	return conf
}
