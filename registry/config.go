package registry

import (
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
)

// Bounds on waits and on work under way. They change no replicated rule.
const (
	maxInFlight    = 1024
	enqueueTimeout = 5 * time.Second
	drainTimeout   = 2 * time.Second
	closeTimeout   = 10 * time.Second
)

// Config says how to open a registry. Dir and NodeID are required.
type Config struct {
	// Dir holds the log and the snapshots. It is made if it is not there, and
	// belongs to one node for good.
	Dir string
	// NodeID is this node's id, the same at every opening of Dir.
	NodeID NodeID
	// Transport carries raft's messages. The registry closes it when it closes, or
	// when opening fails; its Close must be idempotent. Nil is enough for one voter
	// alone.
	Transport raft.Transport
	// Join keeps a fresh directory from becoming a cluster of its own: the node
	// waits until the leader of an existing cluster adds it.
	Join bool
	// Log takes what is worth a line. Nil drops it.
	Log *slog.Logger
	// Heartbeat is the heartbeat and election timeout; 0 means DefaultHeartbeat.
	// The leader's lease is half of it. At least 20 ms.
	Heartbeat time.Duration
	// SnapshotEvery and TrailingLogs count log entries; 0 means their defaults.
	SnapshotEvery uint64
	TrailingLogs  uint64
}

// validate checks the configuration and fills in the defaults.
func (c Config) validate() (Config, error) {
	if c.Dir == "" {
		return c, errors.New("registry: Config.Dir is empty")
	}
	if !isToken(string(c.NodeID), maxText) {
		return c, fmt.Errorf("registry: Config.NodeID %q is not a text of 1 to %d bytes", c.NodeID, maxText)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = DefaultHeartbeat
	}
	if c.Heartbeat < 20*time.Millisecond {
		return c, fmt.Errorf("registry: Config.Heartbeat is %s, at least 20ms", c.Heartbeat)
	}
	if c.SnapshotEvery == 0 {
		c.SnapshotEvery = DefaultSnapshotEvery
	}
	if c.TrailingLogs == 0 {
		c.TrailingLogs = DefaultTrailingLogs
	}
	if c.Transport == nil {
		c.Transport = loopback(c.NodeID)
	}
	return c, nil
}

// loopback is the transport of a voter that has nobody to talk to but itself.
func loopback(node NodeID) raft.Transport {
	addr, t := raft.NewInmemTransport(raft.ServerAddress(node))
	t.Connect(addr, t)
	return t
}

// raft gives raft's own configuration. notify must be drained, or raft stops.
func (c Config) raft(notify chan<- bool) *raft.Config {
	conf := raft.DefaultConfig()
	conf.LocalID = raft.ServerID(c.NodeID)
	conf.HeartbeatTimeout = c.Heartbeat
	conf.ElectionTimeout = c.Heartbeat
	conf.LeaderLeaseTimeout = c.Heartbeat / 2
	conf.SnapshotThreshold = c.SnapshotEvery
	conf.TrailingLogs = c.TrailingLogs
	conf.ShutdownOnRemove = false // leaving is announced and handled by the node
	conf.NoLegacyTelemetry = true
	conf.NotifyCh = notify
	conf.Logger = raftLog{to: c.Log}
	return conf
}
