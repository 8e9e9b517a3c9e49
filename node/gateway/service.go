// Package gateway holds the doors of a node: HTTP with JSON and server-sent
// events, the metrics, the API description. Every door turns what it receives
// into one call of Service and what comes back into its own form; no rule about
// executions lives here.
package gateway

import (
	"context"
	"encoding/json"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// Caller is who asks, as the bearer token says. Operator is set for tokens that
// may administer the mesh.
type Caller struct {
	Actor    string
	Operator bool
	// Streams says that the caller hears the events of the call that it starts, and so
	// can answer the primitives that its code asks of it.
	Streams bool
}

// Stream emits one thing after the other until ctx ends or emit fails. Who asks for one is
// judged before it is given, so that a refusal is an answer of its own and no stream.
type Stream[T any] func(ctx context.Context, emit func(T) error) error

// Service is what a node offers to its doors. The node package implements it.
// All methods may be called at the same time. A refusal or a failure of any
// method is a *surfaces.Refusal, found by errors.As; its code decides the
// answer's status at every door.
type Service interface {
	Library

	// Authenticate tells who a bearer token belongs to; the error is a Refusal
	// with CodeUnauthenticated.
	Authenticate(ctx context.Context, token string) (Caller, error)

	// Start validates and starts an execute_code call, and returns when it has its
	// place among the calls of its session, without waiting for its turn. A
	// refused call comes back as an Execution too, already ended with its
	// refusal. The call does not depend on ctx once it has started.
	Start(ctx context.Context, who Caller, body []byte) Execution
	// Execution finds a call of the actor by its id; nil when there is none. The error is
	// a *surfaces.Refusal when that cannot be told now.
	Execution(ctx context.Context, who Caller, callID string) (Execution, error)
	// Executions lists the actor's calls that are still remembered, newest first.
	Executions(ctx context.Context, who Caller) []CallSummary

	ListSessions(ctx context.Context, who Caller, body []byte) (SessionList, error)
	InspectState(ctx context.Context, who Caller, body []byte) (Inspection, error)
	CloseSession(ctx context.Context, who Caller, body []byte) (Closed, error)
	ResetSession(ctx context.Context, who Caller, body []byte) (SessionInfo, error)
	ForkSession(ctx context.Context, who Caller, body []byte) (SessionInfo, error)

	// Status tells how the node and its mesh are; operators are told more.
	Status(ctx context.Context, who Caller) StatusInfo
	Nodes(ctx context.Context) []NodeInfo
	// DrainNode says whether a node takes new sessions.
	DrainNode(ctx context.Context, who Caller, id string, draining bool) (NodeInfo, error)
	// LabelNode gives a node its labels; none leave them to the node itself.
	LabelNode(ctx context.Context, who Caller, id string, labels map[string]string) (NodeInfo, error)
	// RemoveNode takes a node out of the mesh for good. A node that may still serve
	// is not removed.
	RemoveNode(ctx context.Context, who Caller, id string) (NodeInfo, error)
	// CreateToken makes a join token, which is shown only here.
	CreateToken(ctx context.Context, who Caller, want NewToken) (TokenInfo, error)
	Tokens(ctx context.Context, who Caller) ([]TokenInfo, error)
	// RevokeToken withdraws a join token. Who joined by it stays.
	RevokeToken(ctx context.Context, who Caller, id string) (TokenInfo, error)
	// Authority tells of the certificate authority; RotateAuthority takes one step
	// of the change of its root: begin, advance or rollback.
	Authority(ctx context.Context, who Caller) (AuthorityInfo, error)
	RotateAuthority(ctx context.Context, who Caller, step string) (AuthorityInfo, error)
	// CreateActor mints an actor and its bearer token, which is shown only here.
	CreateActor(ctx context.Context, who Caller, want NewActor) (ActorInfo, error)
	Actors(ctx context.Context, who Caller) ([]ActorInfo, error)
	// EndActor revokes the actor's tokens and closes its sessions.
	EndActor(ctx context.Context, who Caller, name string) (ActorInfo, error)
	// Machines lists the caller's linked machines. Operators may name another actor, and
	// are shown those of all where they name none.
	Machines(ctx context.Context, who Caller, actor string) ([]MachineInfo, error)
	// UnlinkMachine takes a machine out of the mesh, at once and for good. It is named by
	// its id, or one of the caller's own by its name.
	UnlinkMachine(ctx context.Context, who Caller, name string) (MachineInfo, error)
	// Events gives the stream of what happens in the mesh: from now on, or with after
	// from where an earlier stream was, as far as each node still knows. What a reader
	// has missed, for that it came too late or was too slow, is told by an event of kind
	// "dropped". One without a kind has only an ID: it says where the stream is.
	Events(who Caller, after Cursor) (Stream[MeshEvent], error)

	// Audit gives entries of the audit logs, the caller's own alone unless it is an
	// operator.
	Audit(ctx context.Context, who Caller, q AuditQuery) (AuditList, error)
	// FollowAudit gives the stream of what Audit gives and then of what is added.
	FollowAudit(who Caller, q AuditQuery) (Stream[AuditItem], error)
	// VerifyAudit walks over the log of a node, or of all where none is named.
	VerifyAudit(ctx context.Context, who Caller, node string) (AuditVerdicts, error)

	// Live and Ready answer the health checks; the error says what is wrong.
	// Ready runs a real program through a kernel.
	Live(ctx context.Context) error
	Ready(ctx context.Context) error
}

// Execution is one call, running or ended.
type Execution interface {
	ID() string
	// Result is the result so far: StatusRunning until the call has ended.
	Result() surfaces.Result
	// Done is closed when the call has ended.
	Done() <-chan struct{}
	// Follow emits the call's events from the given byte of its output (stdout
	// and stderr counted together, in the order in which they came), then those
	// to come, and last the result; it returns when that was emitted, when emit
	// fails, or when ctx ends. Output that is no longer held is skipped and told
	// by a notice of kind "output_gap". Events other than output are always told
	// from the first that is still held.
	Follow(ctx context.Context, from int64, emit func(StreamEvent) error) error
	// Abandon says that the caller is gone. The call is stopped, unless somebody
	// comes back to follow it within the grace time, or it was started in the
	// background.
	Abandon(grace time.Duration)
	// Steer does pause, resume, stop, ask, interject or answer; the body is the
	// JSON given by the caller. The answer is a JSON object.
	Steer(ctx context.Context, action string, body []byte) (json.RawMessage, error)
	// AnswerPrimitive takes {"result": ...} or {"error": ...} for a primitive that the
	// caller was asked for by an event. The first answer stands.
	AnswerPrimitive(ctx context.Context, seq string, body []byte) error
	// Primitives lists the uses of primitives so far, by their sequences.
	Primitives(ctx context.Context) ([]surfaces.UseRecord, error)
}

// StreamEvent is one event of a call's stream. Name is the event's name on the
// wire: started, stdout, stderr, display, notice, primitive, clarification,
// notify, result. Data is its JSON object. Offset is the output byte after
// which the event stands, for a reader that comes back with from.
type StreamEvent struct {
	Name   string
	Data   json.RawMessage
	Offset int64
}

// CallSummary is one line of a list of calls.
type CallSummary struct {
	CallID      string             `json:"call_id"`
	Status      surfaces.Status    `json:"status"`
	Code        *surfaces.Code     `json:"code"`
	Language    surfaces.Language  `json:"language"`
	StateMode   surfaces.StateMode `json:"state_mode"`
	SessionID   *int               `json:"session_id"`
	SessionName *string            `json:"session_name"`
	StartedAt   time.Time          `json:"started_at"`
	DurationMS  float64            `json:"duration_ms"`
	Thought     string             `json:"thought,omitempty"`
	Paused      bool               `json:"paused"`
	// Parent is the call whose code made this one by calling a stored function, and
	// Function is that function, also where a caller runs it.
	Parent   string `json:"parent,omitempty"`
	Function string `json:"function,omitempty"`
}

// SessionList answers list_sessions.
type SessionList struct {
	Sessions []SessionInfo `json:"sessions"`
	Limit    int           `json:"limit"`
}

// SessionInfo describes one session.
type SessionInfo struct {
	Language    surfaces.Language `json:"language"`
	SessionID   int               `json:"session_id"`
	SessionName *string           `json:"session_name"`
	VenvID      *int              `json:"venv_id"`
	Node        string            `json:"node"`
	// State is live, busy, unreachable or lost.
	State       string             `json:"state"`
	Epoch       uint64             `json:"epoch"`
	CreatedAt   time.Time          `json:"created_at"`
	LastUsedAt  time.Time          `json:"last_used_at"`
	Calls       int64              `json:"calls"`
	MemoryBytes int64              `json:"memory_bytes"`
	Summary     string             `json:"summary"`
	StateLost   surfaces.StateLost `json:"state_lost"`
	// Notice says of a session that fork_session has just made what could not come along.
	Notice []surfaces.Notice `json:"notice,omitempty"`
}

// Inspection answers inspect_state. State is an object of variables, functions
// and modules, or for shells of cwd, variables, functions and aliases.
type Inspection struct {
	Session SessionInfo     `json:"session"`
	State   json.RawMessage `json:"state"`
}

// Closed answers close_session. Reason is success or not_found.
type Closed struct {
	Closed bool   `json:"closed"`
	Reason string `json:"reason"`
}

// StatusInfo answers the status of the node and its mesh.
type StatusInfo struct {
	Node      string    `json:"node"`
	Cluster   string    `json:"cluster"`
	Version   string    `json:"version"`
	StartedAt time.Time `json:"started_at"`
	HTTP      string    `json:"http"`
	Listen    string    `json:"listen"`
	// DataDir and Audit are for operators only.
	DataDir     string         `json:"data_dir,omitempty"`
	Audit       *AuditStatus   `json:"audit,omitempty"`
	Languages   []string       `json:"languages"`
	Nodes       int            `json:"nodes"`
	Leader      string         `json:"leader"`
	Sessions    map[string]int `json:"sessions"`
	Running     int            `json:"running"`
	CallsTotal  int64          `json:"calls_total"`
	MemoryBytes int64          `json:"memory_bytes"`
	Draining    bool           `json:"draining"`
	// MemoryAvailableBytes is what code can still have on this node; MemoryPressure is
	// "none", "low" or "critical".
	MemoryAvailableBytes int64  `json:"memory_available_bytes"`
	MemoryPressure       string `json:"memory_pressure"`
	// Enforced lists what isolation holds on this node; the keys are stable.
	Enforced map[string]string `json:"enforced"`
	// Actor is who asks, as the token says, and Operator whether the token may administer
	// the mesh.
	Actor    string `json:"actor"`
	Operator bool   `json:"operator"`
}

// NodeInfo describes one node.
type NodeInfo struct {
	ID          string            `json:"id"`
	Addr        string            `json:"addr"`
	HTTP        string            `json:"http"`
	State       string            `json:"state"`
	Incarnation uint64            `json:"incarnation"`
	Labels      map[string]string `json:"labels"`
	Voter       bool              `json:"voter"`
	Leader      bool              `json:"leader"`
	// Draining nodes take no new sessions.
	Draining bool `json:"draining"`
	Sessions int  `json:"sessions"`
	Running  int  `json:"running"`
	// MemoryBytes is what the node's own process holds, as it said last, and 0 when it has
	// not. MemoryShort says that it begins no session now, for want of memory.
	MemoryBytes  int64     `json:"memory_bytes"`
	MemoryShort  bool      `json:"memory_short"`
	Languages    []string  `json:"languages"`
	Version      string    `json:"version"`
	RegisteredAt time.Time `json:"registered_at"`
}

// TokenInfo describes one join token. Token is set only by CreateToken.
type TokenInfo struct {
	ID        string            `json:"id"`
	Token     string            `json:"token,omitempty"`
	Role      string            `json:"role"`
	Labels    map[string]string `json:"labels,omitempty"`
	Owner     string            `json:"owner,omitempty"`
	Issuer    string            `json:"issuer"`
	CreatedAt time.Time         `json:"created_at"`
	ExpiresAt time.Time         `json:"expires_at"`
	// UsesLeft is how many more may join by it; Used are the ids of those who did.
	UsesLeft  int        `json:"uses_left"`
	Used      []string   `json:"used"`
	RevokedAt *time.Time `json:"revoked_at"`
}

// AuthorityInfo describes the mesh's certificate authority. Roots are pins, the
// issuing one first. Waiting lists the nodes that the next step waits for.
type AuthorityInfo struct {
	Phase   string   `json:"phase"`
	Roots   []string `json:"roots"`
	Holders []string `json:"holders"`
	Waiting []string `json:"waiting"`
}

// The states of a machine.
const (
	MachineConnected = "connected"
	MachineAway      = "away"
	MachineUnlinked  = "unlinked"
)

// MachineInfo describes a linked machine.
type MachineInfo struct {
	ID      string         `json:"id"`
	Name    string         `json:"name"`
	Actor   string         `json:"actor"`
	Surface surfaces.Place `json:"surface"`
	// State is connected, away, or unlinked in the answer to that.
	State     string   `json:"state"`
	Node      string   `json:"node,omitempty"`
	OS        string   `json:"os"`
	Arch      string   `json:"arch"`
	Version   string   `json:"version"`
	Languages []string `json:"languages"`
	// Consent says in a few words what the owner of the machine allows.
	Consent    string    `json:"consent"`
	LinkedAt   time.Time `json:"linked_at"`
	LastSeenAt time.Time `json:"last_seen_at"`
}

// ActorInfo describes one actor. Token is set only by CreateActor.
type ActorInfo struct {
	Name      string     `json:"name"`
	Token     string     `json:"token,omitempty"`
	Operator  bool       `json:"operator"`
	CreatedAt time.Time  `json:"created_at"`
	EndedAt   *time.Time `json:"ended_at"`
	Sessions  int        `json:"sessions"`
}

// MeshEvent is one thing that happened on the node: call_started, call_ended,
// session_created, session_lost, session_closed, node_ready, node_draining,
// dropped; and of the mesh: node_up, node_unreachable, node_expired, node_removed,
// node_cut_off, node_back, node_fenced; machine_up, machine_down, machine_unlinked. Seq counts
// the events of one run of one node, and Boot says of which run: it is when the node was
// started, in milliseconds since 1970. ID is where a stream is that has told the event.
type MeshEvent struct {
	ID   string          `json:"-"`
	Seq  int64           `json:"seq"`
	Boot int64           `json:"boot"`
	Node string          `json:"node"`
	At   time.Time       `json:"at"`
	Kind string          `json:"kind"`
	Data json.RawMessage `json:"data"`
}
