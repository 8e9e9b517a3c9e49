package registry

import (
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/locusrun/locus/surfaces"
)

// NodeState says whether a node's present life may own sessions.
type NodeState string

const (
	// NodeUp is a node whose lease is good, as far as the leader knows.
	NodeUp NodeState = "up"
	// NodeUnreachable is a node whose lease was missed but may still be renewed.
	NodeUnreachable NodeState = "unreachable"
	// NodeExpired is a life that is over: its lease and grace have passed. Only a
	// new registration, with a new incarnation, brings the node back.
	NodeExpired NodeState = "expired"
)

// Capacity is what a node can carry. Zero is not told.
type Capacity struct {
	MaxSessions int     `json:"max_sessions,omitempty"`
	CPUs        float64 `json:"cpus,omitempty"`
	MemoryBytes int64   `json:"memory_bytes,omitempty"`
}

// Node is what the mesh knows of one node.
type Node struct {
	ID          NodeID            `json:"id"`
	Name        string            `json:"name"`
	Incarnation Incarnation       `json:"incarnation"`
	Addr        string            `json:"addr"`
	Labels      map[string]string `json:"labels,omitempty"`
	// Labelled says that the labels are an operator's, not the node's own.
	Labelled bool `json:"labelled,omitempty"`
	// Voter is what the node was when it registered; Members tells what it is.
	Voter        bool      `json:"voter"`
	State        NodeState `json:"state"`
	RegisteredAt Timestamp `json:"registered_at"`
	// Draining nodes take no new sessions.
	Draining bool `json:"draining,omitempty"`
	// HTTP is where its doors are.
	HTTP      string   `json:"http,omitempty"`
	Version   string   `json:"version,omitempty"`
	Languages []string `json:"languages,omitempty"`
	Capacity  Capacity `json:"capacity,omitzero"`
	// Level is the highest feature level that it knows; 0 is the first.
	Level uint8 `json:"level,omitempty"`
}

func (n Node) clone() Node {
	n.Labels, n.Languages = maps.Clone(n.Labels), slices.Clone(n.Languages)
	return n
}

// SessionState says where a session stands.
type SessionState string

const (
	// SessionLive is a session whose owner serves it.
	SessionLive SessionState = "live"
	// SessionUnreachable is a session whose owner's lease was missed. It may come
	// back with its state.
	SessionUnreachable SessionState = "unreachable"
	// SessionLost is a session whose state is gone. It keeps its key, its name and
	// its place in the actor's limit until it is rebuilt or closed.
	SessionLost SessionState = "lost"
	// SessionClosed is a session that was ended on purpose. Closed sessions are
	// not kept; the state appears only in the outcome of the closing command.
	SessionClosed SessionState = "closed"
)

// LossReason says why a session's state is gone. The set is open; these are the
// reasons that the state machine gives by itself, and the usual others.
type LossReason string

const (
	// LossNodeRestarted is given to the sessions of a node's earlier life when the
	// node registers again.
	LossNodeRestarted LossReason = "node_restarted"
	// LossNodeStopped is given when a node has said that it stops.
	LossNodeStopped LossReason = "node_stopped"
	// LossNodeExpired is given when a node's lease and grace have passed.
	LossNodeExpired LossReason = "node_expired"
	// LossNodeRemoved is given when a node is removed from the mesh.
	LossNodeRemoved LossReason = "node_removed"
	// LossMeshRecovered is given to all sessions by a disaster recovery.
	LossMeshRecovered LossReason = "mesh_recovered"
	// LossProcessDied is for a session whose own process died.
	LossProcessDied LossReason = "process_died"
	// LossTimeout is for a session whose process had to be killed at a deadline.
	LossTimeout LossReason = "timeout"
	// LossStopped is for a session whose process had to be killed by a stop.
	LossStopped LossReason = "stopped"
	// LossIdle: nobody used it for as long as its node keeps such sessions.
	LossIdle LossReason = "idle"
	// LossMemoryPressure: nobody used it, and its node was short of memory.
	LossMemoryPressure LossReason = "memory_pressure"
)

// Loss is the latest loss of a session's state. The zero value is no loss.
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

// Session is what the mesh knows of one session. It is a plain value; changing
// a copy changes nothing in the registry.
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
	CreatedAt   Timestamp    `json:"created_at"`
	LastUsedAt  Timestamp    `json:"last_used_at"`
	Calls       uint64       `json:"calls"`
	// Loss is the latest loss; an earlier one that nobody was told of is replaced.
	Loss Loss `json:"loss,omitzero"`
}

// Grant gives what the session's owner must show to change it.
func (s Session) Grant() Grant {
	return Grant{Node: s.Owner, Incarnation: s.Incarnation, Epoch: s.Epoch}
}

// Counted reports whether the session takes one of the actor's places.
func (s Session) Counted() bool { return !s.Key.IsPlan() }

// Actor is one agent at one task. Sessions are keyed by its name.
type Actor struct {
	Name string `json:"name"`
	// ID tells actors apart that had the same name one after the other.
	ID string `json:"id"`
	// Tokens are the hashes of its bearer tokens, sorted. An ended actor has none.
	Tokens []TokenHash `json:"tokens,omitempty"`
	// Operator may do what changes the mesh.
	Operator bool `json:"operator,omitempty"`
	// Labels are what a node must have to run the actor's code.
	Labels    map[string]string `json:"labels,omitempty"`
	CreatedAt Timestamp         `json:"created_at"`
	// EndedAt is 0 while the actor is alive.
	EndedAt Timestamp `json:"ended_at,omitempty"`
}

// Ended reports whether the actor is over.
func (a Actor) Ended() bool { return a.EndedAt != 0 }

// Bounds that the state machine enforces. They are part of the replicated rules:
// changing one needs a new feature level, so they are not taken from elsewhere.
const (
	// MaxSessions is how many counted sessions an actor may have.
	MaxSessions = 20
	// MaxTokens is how many tokens an actor may have at a time.
	MaxTokens = 64
	// MaxTouches is how many sessions one TouchSessions command may name.
	MaxTouches = 256
	// MaxCommand is the longest command, in bytes.
	MaxCommand = 64 << 10
	// MaxLongCommand is the longest command that carries a pyproject, a lock or a
	// source. With what is around it, it fits into one message between nodes.
	MaxLongCommand = 1<<20 - 4<<10
	// RequestWindow is for how many log indexes a request id is remembered.
	RequestWindow = 4096

	// MaxJoinTokens is how many join tokens may be kept at a time; they are
	// forgotten a week after their end.
	MaxJoinTokens = 1024
	// MaxTokenUses is how many keys may join by one token at most.
	MaxTokenUses = 256

	// MaxLabels is how many labels a node, an actor or a token has at most, and MaxLabel
	// how many bytes a label's name or value.
	MaxLabels = 64
	MaxLabel  = maxText
	// MaxRevoked is how many identities may be revoked at a time.
	MaxRevoked = 16384
	// MaxKeys is how many idempotency keys of an actor are remembered; the oldest
	// one goes first.
	MaxKeys = 1024

	// tokenMemory is how long a token or a revocation is kept after its end.
	tokenMemory   = 7 * Timestamp(24*time.Hour)
	forgetAtOnce  = 32 // idempotency keys
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
