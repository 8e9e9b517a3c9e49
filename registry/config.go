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
	// DefaultTrailingLogs is how many log entries are kept behind a snapshot, so that a
	// node that was away briefly need not receive the whole snapshot.
	DefaultTrailingLogs = 4096
	// DefaultMaxVoters is how many nodes vote at most.
	DefaultMaxVoters = 5
	// DefaultStableFor is how long a node must have been responsive to become a voter.
	DefaultStableFor = 3 * time.Second
	// DefaultReplaceAfter is after how long a silent voter may be replaced.
	DefaultReplaceAfter = 5 * time.Minute
)

// Bounds on waits and on requests in flight. They are not part of the replicated rules.
const (
	maxInFlight    = 1024
	enqueueTimeout = 5 * time.Second
	drainTimeout   = 2 * time.Second
	closeTimeout   = 10 * time.Second
	// leaderTimeout is how long a command waits for a leader that accepts it.
	leaderTimeout = 3 * time.Second
	// retryPause is the longest pause between two tries, if no new leader becomes known.
	retryPause = 100 * time.Millisecond
	poolSize   = 3
)

// Config says how to open a registry. Dir and NodeID are required.
type Config struct {
	// Dir holds the log and the snapshots. It is created if needed, and belongs to one
	// node for good.
	Dir string
	// NodeID is this node's id. It must be the same whenever Dir is opened.
	NodeID NodeID
	// Layer carries raft's streams to other nodes, which are addressed by node id. The
	// registry closes it on Close, or when Open fails. Nil means a mesh of one node.
	Layer StreamLayer
	// Forward sends a request to another node's Serve and returns the reply. sent is false
	// if the request surely did not reach that node. A mesh of one node may leave it nil.
	// In a larger mesh without it, commands work only on the leader, no node becomes a
	// voter, and no lease can be renewed.
	Forward func(ctx context.Context, to NodeID, request []byte) (reply []byte, sent bool, err error)
	// Join keeps a fresh directory from becoming a cluster of its own: the node waits until
	// an existing cluster adds it (AddMember).
	Join bool
	// ClusterID is the id of the cluster that a fresh directory becomes; a random one if
	// empty. If it is set, the state of another cluster is refused with ErrWrongCluster.
	ClusterID string
	// MaxVoters is how many nodes vote at most: 1, 3 or 5; 0 means DefaultMaxVoters.
	MaxVoters int
	// StableFor is how long another node must have been responsive to become a voter; 0
	// means DefaultStableFor.
	StableFor time.Duration
	// ReplaceAfter is how long a voter must be silent before another member may take its
	// vote; 0 means DefaultReplaceAfter.
	ReplaceAfter time.Duration
	// Lease configures the leases. The settings of the node that founds the mesh apply to
	// all nodes.
	Lease LeaseConfig
	// Log may be nil.
	Log *slog.Logger
	// Heartbeat is the heartbeat and election timeout, and how long most voters must be
	// silent for a leader to resign; 0 means DefaultHeartbeat. At least 20 ms. A leader
	// hears from a voter every two fifths of it, or every fifth plus a round trip, so the
	// round trip may take four fifths.
	Heartbeat time.Duration
	// SnapshotEvery and TrailingLogs count log entries; 0 means their defaults.
	SnapshotEvery uint64
	TrailingLogs  uint64

	level uint8 // the highest supported feature level; 0 means that of this release
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

// transport returns raft's transport: over the layer, or in memory for a single node.
func (c Config) transport() raft.Transport {
	if c.Layer == nil {
		addr, t := raft.NewInmemTransport(raft.ServerAddress(c.NodeID))
		t.Connect(addr, t)
		return t
	}
	return newTransport(raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: newStreams(c.Layer, c.NodeID), MaxPool: poolSize, Logger: raftLog{to: c.Log, limiter: &logLimiter{}},
		Timeout: max(time.Second, 3*c.Heartbeat), MsgpackUseNewTimeFormat: true,
	}), c.Heartbeat)
}

// raft returns raft's own configuration. notify must be drained, or raft blocks.
func (c Config) raft(notify chan<- bool) *raft.Config {
	conf := raft.DefaultConfig()
	conf.LocalID = raft.ServerID(c.NodeID)
	conf.HeartbeatTimeout = c.Heartbeat
	conf.ElectionTimeout = c.Heartbeat
	conf.LeaderLeaseTimeout = c.Heartbeat
	conf.CommitTimeout = c.Heartbeat / 2 // see commits.go
	conf.SnapshotThreshold = c.SnapshotEvery
	conf.TrailingLogs = c.TrailingLogs
	conf.ShutdownOnRemove = false // leaving is announced and handled by the node
	conf.NoLegacyTelemetry = true
	conf.NotifyCh = notify
	conf.Logger = raftLog{to: c.Log, limiter: &logLimiter{}}
	return conf
}
