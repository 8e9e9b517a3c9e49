package registry

import (
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/locusrun/locus/surfaces"
)

// NodeState says whether a node's current incarnation may own sessions.
type NodeState string

const (
	// NodeUp: the lease is valid, as far as the leader knows.
	NodeUp NodeState = "up"
	// NodeUnreachable: the lease has run out, but may still be renewed within its grace.
	NodeUnreachable NodeState = "unreachable"
	// NodeExpired: lease and grace have passed, and the incarnation is over. Only a new
	// registration, with a new incarnation, brings the node back.
	NodeExpired NodeState = "expired"
)

// Capacity is what a node offers. A zero field is not known.
type Capacity struct {
	// MaxSessions bounds the node's sessions; 0 is no bound.
	MaxSessions int     `json:"max_sessions,omitempty"`
	CPUs        float64 `json:"cpus,omitempty"`
	MemoryBytes int64   `json:"memory_bytes,omitempty"`
}

// Node is the record of a node.
type Node struct {
	ID NodeID `json:"id"`
	// Name is for people and need not be unique.
	Name        string      `json:"name"`
	Incarnation Incarnation `json:"incarnation"`
	// Addr is where other nodes reach its mesh, as host:port.
	Addr   string            `json:"addr"`
	Labels map[string]string `json:"labels,omitempty"`
	// Labelled says that the labels were set by LabelNode, not by the node itself.
	Labelled bool `json:"labelled,omitempty"`
	// Voter says whether it was a voter when it registered; for the present see Members.
	Voter        bool      `json:"voter"`
	State        NodeState `json:"state"`
	RegisteredAt Timestamp `json:"registered_at"`
	// Draining nodes take no new sessions.
	Draining bool `json:"draining,omitempty"`
	// HTTP is the address of its HTTP server.
	HTTP      string   `json:"http,omitempty"`
	Version   string   `json:"version,omitempty"`
	Languages []string `json:"languages,omitempty"`
	Capacity  Capacity `json:"capacity,omitzero"`
	// Level is the highest feature level that it supports; 0 means 1.
	Level uint8 `json:"level,omitempty"`
}

func (n Node) clone() Node {
	n.Labels, n.Languages = maps.Clone(n.Labels), slices.Clone(n.Languages)
	return n
}

// SessionState is the state of a session.
type SessionState string

const (
	// SessionLive: its owner serves it.
	SessionLive SessionState = "live"
	// SessionUnreachable: its owner is unreachable. It may come back with its state.
	SessionUnreachable SessionState = "unreachable"
	// SessionLost: its state is gone. It keeps its key, its name and its place in the
	// actor's limit until it is rebuilt or closed.
	SessionLost SessionState = "lost"
	// SessionClosed: it was closed. Closed sessions are not stored; this state appears only
	// in the outcome of the closing command.
	SessionClosed SessionState = "closed"
)

// LossReason says why a session's state is gone. The set is open; these are the known ones.
type LossReason string

const (
	// LossNodeRestarted: its node registered again.
	LossNodeRestarted LossReason = "node_restarted"
	// LossNodeStopped: its node was shut down.
	LossNodeStopped LossReason = "node_stopped"
	// LossNodeExpired: the lease and grace of its node have passed.
	LossNodeExpired LossReason = "node_expired"
	// LossNodeRemoved: its node was removed from the mesh.
	LossNodeRemoved LossReason = "node_removed"
	// LossMeshRecovered: the mesh was recovered from one node.
	LossMeshRecovered LossReason = "mesh_recovered"
	// LossProcessDied: its process died.
	LossProcessDied LossReason = "process_died"
	// LossTimeout: its process had to be killed at a deadline.
	LossTimeout LossReason = "timeout"
	// LossStopped: its process had to be killed by a stop.
	LossStopped LossReason = "stopped"
	// LossIdle: it was not used for longer than its node keeps idle sessions.
	LossIdle LossReason = "idle"
	// LossMemoryPressure: it was idle, and its node was short of memory.
	LossMemoryPressure LossReason = "memory_pressure"
)

// Loss is the latest loss of a session's state. The zero value means none.
type Loss struct {
	Reason LossReason `json:"reason"`
	At     Timestamp  `json:"at"`
	// Epoch is the epoch whose state is gone.
	Epoch Epoch `json:"epoch"`
	// Told says that a caller has been told.
	Told bool `json:"told"`
}

// IsZero reports whether there was no loss.
func (l Loss) IsZero() bool { return l.Epoch == 0 }

// Session is the record of a session. It is a plain value that callers may change.
type Session struct {
	Key surfaces.SessionKey `json:"key"`
	// Name is empty for a session without one.
	Name string `json:"name,omitempty"`
	// Owner and Incarnation name the node that owns the session, or owned it when
	// it was lost.
	Owner       NodeID       `json:"owner"`
	Incarnation Incarnation  `json:"incarnation"`
	Epoch       Epoch        `json:"epoch"`
	State       SessionState `json:"state"`
	// CreatedAt is when the name or id was first claimed; a rebuilt session keeps it.
	CreatedAt Timestamp `json:"created_at"`
	// LastUsedAt and Calls are as of the owner's last report, which may be a little late.
	LastUsedAt Timestamp `json:"last_used_at"`
	Calls      uint64    `json:"calls"`
	// Loss is the latest loss; it replaces an earlier one even if no caller was told of it.
	Loss Loss `json:"loss,omitzero"`
}

// Grant returns the grant that the session's owner needs to change it.
func (s Session) Grant() Grant {
	return Grant{Node: s.Owner, Incarnation: s.Incarnation, Epoch: s.Epoch}
}

// Counted reports whether the session counts towards the actor's limit.
func (s Session) Counted() bool { return !s.Key.IsPlan() }

// Actor is one agent at one task. Sessions are keyed by its name.
type Actor struct {
	Name string `json:"name"`
	// ID distinguishes successive actors of the same name.
	ID string `json:"id"`
	// Tokens are the hashes of its bearer tokens, sorted. An ended actor has none.
	Tokens []TokenHash `json:"tokens,omitempty"`
	// Operator says that it may administer the mesh.
	Operator bool `json:"operator,omitempty"`
	// Labels must be on a node that runs the actor's code.
	Labels    map[string]string `json:"labels,omitempty"`
	CreatedAt Timestamp         `json:"created_at"`
	// EndedAt is 0 until the actor is ended.
	EndedAt Timestamp `json:"ended_at,omitempty"`
}

// Ended reports whether the actor was ended.
func (a Actor) Ended() bool { return a.EndedAt != 0 }

// Bounds that the state machine enforces. They are part of the replicated rules, and changing
// one needs a new feature level; so they are not derived from constants of other packages.
const (
	// MaxSessions is how many counted sessions an actor may have.
	MaxSessions = 20
	// MaxActors is how many actors there may be that have not ended, and MaxEndedActors how
	// many records of ended ones are kept.
	MaxActors      = 16384
	MaxEndedActors = 1024
	// MaxTokens is how many tokens an actor may have at a time.
	MaxTokens = 64
	// MaxTouches is how many sessions one TouchSessions command may name.
	MaxTouches = 256
	// MaxCommand is the longest command, in bytes.
	MaxCommand = 64 << 10
	// MaxLongCommand is the longest command that carries a pyproject, a lock or a source,
	// in bytes. With its envelope it fits into one message between nodes.
	MaxLongCommand = 1<<20 - 4<<10
	// RequestWindow is for how many log indexes a request id is remembered.
	RequestWindow = 4096

	// MaxJoinTokens is how many join tokens are kept at a time; they may be removed a week
	// after they expired.
	MaxJoinTokens = 1024
	// MaxTokenUses is how many keys may join with one token at most.
	MaxTokenUses = 256

	// MaxLabels is how many labels a node, an actor or a token has at most, and MaxLabel
	// how many bytes a label's name or value.
	MaxLabels = 64
	MaxLabel  = maxText
	// MaxRevoked is how many identities may be revoked at a time.
	MaxRevoked = 16384
	// MaxKeys is how many idempotency keys of an actor are in force at a time. Each takes
	// about 1.2 KB of memory on every node.
	MaxKeys = 16384

	// tokenMemory is how long a token or revocation is kept at least after it expired.
	tokenMemory   = 7 * Timestamp(24*time.Hour)
	forgetAtOnce  = 32 // idempotency keys that one reservation may remove
	maxKey        = 128 * utf8.UTFMax
	maxURI        = 512
	maxRoots      = 8
	maxRoot       = 4 << 10
	maxGossipKeys = 8
	maxGossipKey  = 64

	maxName   = 64        // session names, in characters
	maxText   = 256       // all other texts, in bytes
	maxReason = 64        // loss reasons, in bytes
	maxID     = 1<<31 - 1 // session and environment ids
)
