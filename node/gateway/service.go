// Package gateway serves a node's API: HTTP with JSON and server-sent events, MCP, the
// metrics, the dashboard and the API description. It translates each request to a call of
// Service and the result to the protocol. It has no rules about executions of its own.
package gateway

import (
	"context"
	"encoding/json"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// Caller is the identity behind a bearer token.
type Caller struct {
	Actor string
	// ActorID tells the actor from ended ones of its name.
	ActorID string
	// Operator says that the actor may administer the mesh.
	Operator bool
	// Streams says that the caller reads the events of the call that it starts, and so can
	// answer its primitives.
	Streams bool
}

// Stream emits values until ctx ends or emit fails. Requests are checked before a Stream is
// returned, so that a refusal can be a normal answer.
type Stream[T any] func(ctx context.Context, emit func(T) error) error

// Service is what a node offers through the gateway; package node implements it. Its
// methods are safe for concurrent use. Their errors are *surfaces.Refusal, found by
// errors.As, whose code determines the HTTP status; any other error is internal.
type Service interface {
	Library

	// Authenticate returns the actor of a bearer token. The error is a Refusal with
	// CodeUnauthenticated.
	Authenticate(ctx context.Context, token string) (Caller, error)

	// Start validates and starts an execute_code call. It returns when the call is queued
	// in its session, without waiting for its turn. A refused call is returned as an
	// Execution that has already ended. A started call does not depend on ctx.
	Start(ctx context.Context, who Caller, body []byte) Execution
	// Execution finds a call of the actor by its id; nil if there is none. The error is a
	// *surfaces.Refusal if that cannot be determined now.
	Execution(ctx context.Context, who Caller, callID string) (Execution, error)
	// Executions lists the actor's calls that are still kept, newest first.
	Executions(ctx context.Context, who Caller) []CallSummary

	// The tools other than execute_code. body has their arguments, a JSON object. The error is
	// a *surfaces.Refusal if they are invalid or the session does not exist.

	// ListSessions lists the actor's sessions.
	ListSessions(ctx context.Context, who Caller, body []byte) (SessionList, error)
	// InspectState describes what a session holds.
	InspectState(ctx context.Context, who Caller, body []byte) (Inspection, error)
	// CloseSession ends a session and everything that it has started.
	CloseSession(ctx context.Context, who Caller, body []byte) (Closed, error)
	// ResetSession clears the state of a session and keeps its name.
	ResetSession(ctx context.Context, who Caller, body []byte) (SessionInfo, error)
	// ForkSession makes a new session that starts as a copy of another.
	ForkSession(ctx context.Context, who Caller, body []byte) (SessionInfo, error)

	// Status returns the state of the node and its mesh; operators see more.
	Status(ctx context.Context, who Caller) StatusInfo
	// Nodes lists the nodes of the mesh, as far as this node knows them.
	Nodes(ctx context.Context) []NodeInfo
	// DrainNode sets whether a node takes new sessions.
	DrainNode(ctx context.Context, who Caller, id string, draining bool) (NodeInfo, error)
	// LabelNode sets a node's labels; without any the node's own configuration holds.
	LabelNode(ctx context.Context, who Caller, id string, labels map[string]string) (NodeInfo, error)
	// RemoveNode removes an expired node for good. A node that may still serve is not
	// removed.
	RemoveNode(ctx context.Context, who Caller, id string) (NodeInfo, error)
	// CreateToken makes a join token. Only this answer shows it.
	CreateToken(ctx context.Context, who Caller, want NewToken) (TokenInfo, error)
	// Tokens lists the join tokens, without their secrets.
	Tokens(ctx context.Context, who Caller) ([]TokenInfo, error)
	// RevokeToken revokes a join token. Members that joined with it stay.
	RevokeToken(ctx context.Context, who Caller, id string) (TokenInfo, error)
	// Authority returns the state of the certificate authority.
	Authority(ctx context.Context, who Caller) (AuthorityInfo, error)
	// RotateAuthority takes one step of a rotation of its root: begin, advance or rollback.
	RotateAuthority(ctx context.Context, who Caller, step string) (AuthorityInfo, error)
	// CreateActor creates an actor and its bearer token. Only this answer shows it.
	CreateActor(ctx context.Context, who Caller, want NewActor) (ActorInfo, error)
	// Actors lists the actors, without their tokens.
	Actors(ctx context.Context, who Caller) ([]ActorInfo, error)
	// EndActor revokes the actor's tokens, stops its calls and closes its sessions.
	EndActor(ctx context.Context, who Caller, name string) (ActorInfo, error)
	// Machines lists the caller's linked machines. Operators may name another actor, and
	// get all machines if they name none.
	Machines(ctx context.Context, who Caller, actor string) ([]MachineInfo, error)
	// UnlinkMachine removes a machine at once and for good. It is named by its id; the
	// caller's own also by name.
	UnlinkMachine(ctx context.Context, who Caller, name string) (MachineInfo, error)
	// Events returns the stream of the mesh's events: from now on, or from the position
	// after, as far as the nodes still hold them. An event of kind "dropped" stands for
	// events that the reader missed, because it came too late or was too slow. An event
	// without a kind only has an ID, which is a position.
	Events(who Caller, after Cursor) (Stream[MeshEvent], error)

	// Audit returns entries of the audit logs. Callers who are no operators get only their
	// own.
	Audit(ctx context.Context, who Caller, q AuditQuery) (AuditList, error)
	// FollowAudit returns a stream of the entries of Audit and then of new ones.
	FollowAudit(who Caller, q AuditQuery) (Stream[AuditItem], error)
	// VerifyAudit verifies the log of a node, or of all if none is named.
	VerifyAudit(ctx context.Context, who Caller, node string) (AuditVerdicts, error)

	// Live is the health check of the node itself; the error says what is wrong.
	Live(ctx context.Context) error
	// Ready checks everything that a call needs, by running a real program in a kernel.
	Ready(ctx context.Context) error
}

// Execution is one call, running or ended.
type Execution interface {
	// ID returns the call's id.
	ID() string
	// Result is the result so far; its status is StatusRunning until the call has ended.
	Result() surfaces.Result
	// Done is closed when the call has ended.
	Done() <-chan struct{}
	// Follow emits the call's events from an offset in its output (stdout and stderr
	// counted together, in the order of arrival), then new ones, and last the result. It
	// returns when the result was emitted, when emit fails or when ctx ends. A notice of
	// kind "output_gap" stands for output that is no longer held. Events other than output
	// are always emitted from the first one held.
	Follow(ctx context.Context, from int64, emit func(StreamEvent) error) error
	// Abandon says that the caller has gone. The call is stopped, unless somebody follows
	// it again within the grace time or it runs in the background.
	Abandon(grace time.Duration)
	// Steer does pause, resume, stop, ask, interject or answer. body is the request's JSON.
	// The answer is a JSON object.
	Steer(ctx context.Context, action string, body []byte) (json.RawMessage, error)
	// AnswerPrimitive takes {"result": ...} or {"error": ...} for a primitive that an event
	// has asked the caller for. The first answer counts.
	AnswerPrimitive(ctx context.Context, seq string, body []byte) error
	// Primitives lists the uses of primitives so far by sequence number.
	Primitives(ctx context.Context) ([]surfaces.UseRecord, error)
}

// StreamEvent is one event of a call. Name is its name on the wire: started, stdout,
// stderr, display, notice, primitive, clarification, notify or result. Data is a JSON
// object. Offset is the output offset after which the event stands; a reader can resume
// from it.
type StreamEvent struct {
	Name string
	Data json.RawMessage
	// Offset is the output offset after which the event comes, both streams counted
	// together.
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
	// DurationMS is the time so far of a running call.
	DurationMS float64 `json:"duration_ms"`
	Thought    string  `json:"thought,omitempty"`
	Paused     bool    `json:"paused"`
	// Parent is the call whose code made this one by calling a stored function. Function is
	// the stored function that the call runs.
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
	State string `json:"state"`
	// Epoch grows each time that the session is rebuilt.
	Epoch      uint64    `json:"epoch"`
	CreatedAt  time.Time `json:"created_at"`
	LastUsedAt time.Time `json:"last_used_at"`
	Calls      int64     `json:"calls"`
	// MemoryBytes is the private memory of the session's own process; 0 if unknown.
	MemoryBytes int64 `json:"memory_bytes"`
	// Summary is one line for people.
	Summary   string             `json:"summary"`
	StateLost surfaces.StateLost `json:"state_lost"`
	// Notice lists what fork_session could not copy; it is set only in its answer.
	Notice []surfaces.Notice `json:"notice,omitempty"`
}

// Inspection answers inspect_state. For Python, State has variables, functions and modules;
// for shells cwd, variables, functions and aliases.
type Inspection struct {
	Session SessionInfo     `json:"session"`
	State   json.RawMessage `json:"state"`
}

// Closed answers close_session. Reason is success or not_found.
type Closed struct {
	Closed bool   `json:"closed"`
	Reason string `json:"reason"`
}

// StatusInfo is the state of the node and its mesh.
type StatusInfo struct {
	Node      string    `json:"node"`
	Cluster   string    `json:"cluster"`
	Version   string    `json:"version"`
	StartedAt time.Time `json:"started_at"`
	HTTP      string    `json:"http"`
	Listen    string    `json:"listen"`
	// DataDir and Audit are for operators only.
	DataDir   string       `json:"data_dir,omitempty"`
	Audit     *AuditStatus `json:"audit,omitempty"`
	Languages []string     `json:"languages"`
	Nodes     int          `json:"nodes"`
	Leader    string       `json:"leader"`
	// Sessions counts the node's sessions by state.
	Sessions map[string]int `json:"sessions"`
	Running  int            `json:"running"`
	// CallsTotal counts the calls since the node started.
	CallsTotal int64 `json:"calls_total"`
	// MemoryBytes is the resident memory of the node's own process.
	MemoryBytes int64 `json:"memory_bytes"`
	Draining    bool  `json:"draining"`
	// MemoryAvailableBytes is the memory left for code on this node; MemoryPressure is
	// "none", "low" or "critical".
	MemoryAvailableBytes int64  `json:"memory_available_bytes"`
	MemoryPressure       string `json:"memory_pressure"`
	// Enforced lists the isolation on this node; the keys are stable.
	Enforced map[string]string `json:"enforced"`
	// Actor and Operator describe the token that asked.
	Actor    string `json:"actor"`
	Operator bool   `json:"operator"`
}

// NodeInfo describes one node.
type NodeInfo struct {
	ID string `json:"id"`
	// Addr is where other nodes reach its mesh, HTTP where its API listens.
	Addr  string `json:"addr"`
	HTTP  string `json:"http"`
	State string `json:"state"`
	// Incarnation grows each time that the node restarts.
	Incarnation uint64            `json:"incarnation"`
	Labels      map[string]string `json:"labels"`
	Voter       bool              `json:"voter"`
	Leader      bool              `json:"leader"`
	// Draining nodes take no new sessions.
	Draining bool `json:"draining"`
	Sessions int  `json:"sessions"`
	Running  int  `json:"running"`
	// MemoryBytes is the last reported memory of the node's own process, or 0. MemoryShort
	// says that it is too short of memory to start sessions.
	MemoryBytes  int64     `json:"memory_bytes"`
	MemoryShort  bool      `json:"memory_short"`
	Languages    []string  `json:"languages"`
	Version      string    `json:"version"`
	RegisteredAt time.Time `json:"registered_at"`
}

// TokenInfo describes one join token. Token is set only by CreateToken.
type TokenInfo struct {
	ID     string            `json:"id"`
	Token  string            `json:"token,omitempty"`
	Role   string            `json:"role"`
	Labels map[string]string `json:"labels,omitempty"`
	// Owner is the actor that a joining machine belongs to, Issuer the actor that created
	// the token.
	Owner     string    `json:"owner,omitempty"`
	Issuer    string    `json:"issuer"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
	// UsesLeft is how often it can still be used; Used has the ids of those who joined.
	UsesLeft  int        `json:"uses_left"`
	Used      []string   `json:"used"`
	RevokedAt *time.Time `json:"revoked_at"`
}

// AuthorityInfo describes the mesh's certificate authority. Roots are pins, the issuing
// root first. Waiting lists the nodes that block the next step.
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
	// State is connected or away; unlinked only in the answer to the unlinking.
	State string `json:"state"`
	// Node holds the machine's connection; empty while it is away.
	Node      string   `json:"node,omitempty"`
	OS        string   `json:"os"`
	Arch      string   `json:"arch"`
	Version   string   `json:"version"`
	Languages []string `json:"languages"`
	// Consent is a short description of what the machine's owner allows.
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

// MeshEvent is one event of a node: call_started, call_ended, session_created,
// session_lost, session_closed, node_ready, node_draining, dropped; or of the mesh:
// node_up, node_unreachable, node_expired, node_removed, node_cut_off, node_back,
// node_fenced, machine_up, machine_down, machine_unlinked. Seq counts the events of one run
// of a node. Boot identifies the run: its start in milliseconds since 1970. ID is the
// stream's position after the event.
type MeshEvent struct {
	ID   string          `json:"-"`
	Seq  int64           `json:"seq"`
	Boot int64           `json:"boot"`
	Node string          `json:"node"`
	At   time.Time       `json:"at"`
	Kind string          `json:"kind"`
	Data json.RawMessage `json:"data"`
}
