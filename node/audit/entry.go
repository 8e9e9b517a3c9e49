package audit

import (
	"maps"
	"slices"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// Entry is one line of the log: who did what, where, and with what outcome. It never holds
// code, arguments or results, only their digests. Seq and Prev must stay the first two
// fields: unseal reads them without decoding the line.
type Entry struct {
	// Seq counts the entries of the node from 1. Prev is the hash of the entry before.
	Seq  uint64 `json:"seq"`
	Prev string `json:"prev"`
	Node string `json:"node"`
	// At is when the entry was added, by the node's clock. Every Add has a later time than the
	// one before, even if the clock was set back; the log's own log_gap and log_dropped have
	// the time of the clock.
	At   time.Time `json:"at"`
	Kind Kind      `json:"what"`
	// Actor is who did it; empty for what the node did by itself.
	Actor  string `json:"actor,omitempty"`
	CallID string `json:"call_id,omitempty"`
	// Parent is the call whose code made this call or asked this question.
	Parent string `json:"parent,omitempty"`
	// Function is the stored function that the call runs. FunctionDigest is its digest as
	// /v1/functions shows it.
	Function       string `json:"function,omitempty"`
	FunctionDigest string `json:"function_digest,omitempty"`

	Language    surfaces.Language  `json:"language,omitempty"`
	StateMode   surfaces.StateMode `json:"state_mode,omitempty"`
	SessionID   *int               `json:"session_id,omitempty"`
	SessionName *string            `json:"session_name,omitempty"`
	VenvID      *int               `json:"venv_id,omitempty"`
	Surface     surfaces.Place     `json:"surface,omitempty"`
	Machine     string             `json:"machine,omitempty"`

	// CodeSHA256 is the hex SHA-256 of the code.
	CodeSHA256 string `json:"code_sha256,omitempty"`
	Thought    string `json:"thought,omitempty"`

	Primitive *Primitive `json:"primitive,omitempty"`
	// Target is what the action was done to: an actor, a token's id, a node, a machine.
	Target string            `json:"target,omitempty"`
	Detail map[string]string `json:"detail,omitempty"`

	// Status is done, failed or refused; empty while there is no outcome.
	Status    surfaces.Status `json:"status,omitempty"`
	ErrorCode surfaces.Code   `json:"error_code,omitempty"`
	Attempts  int             `json:"attempts,omitempty"`
	// StateLost is the reason of a state loss that the caller was told of.
	StateLost  string              `json:"state_lost,omitempty"`
	StateDiff  *surfaces.StateDiff `json:"state_diff,omitempty"`
	Primitives int                 `json:"primitives,omitempty"`
	DurationMS float64             `json:"duration_ms,omitempty"`
	// RanOn is the node that ran the call.
	RanOn string `json:"ran_on,omitempty"`
	// Clipped says that texts or names were cut to keep the line within MaxLine.
	Clipped bool `json:"clipped,omitempty"`

	Hash string `json:"hash"`
}

// Primitive is one use of a primitive by the code of a call.
type Primitive struct {
	Seq  int64  `json:"seq"`
	Name string `json:"name"`
	// Digest is the hex SHA-256 of the name and the arguments.
	Digest string `json:"digest"`
	// Outcome is "ok" or the type of the error.
	Outcome string  `json:"outcome"`
	MS      float64 `json:"ms"`
}

// Kind is the kind of an entry.
type Kind string

// The kinds of entries.
const (
	CallStarted  Kind = "call_started"
	CallEnded    Kind = "call_ended"
	CallRefused  Kind = "call_refused"  // nothing was run
	CallRepeated Kind = "call_repeated" // answered with an earlier call that has the same idempotency key
	CallAmended  Kind = "call_amended"  // the outcome of a call recorded as unknown became known
	CallSteered  Kind = "call_steered"
	PrimitiveUse Kind = "primitive"

	SessionClosed Kind = "session_closed"
	SessionReset  Kind = "session_reset"
	SessionForked Kind = "session_forked"

	ActorCreated     Kind = "actor_created"
	ActorEnded       Kind = "actor_ended"
	TokenCreated     Kind = "token_created"
	TokenRevoked     Kind = "token_revoked"
	NodeDrained      Kind = "node_drained"
	NodeLabelled     Kind = "node_labelled"
	NodeRemoved      Kind = "node_removed"
	AuthorityRotated Kind = "authority_rotated"
	MachineUnlinked  Kind = "machine_unlinked"
	VenvAdded        Kind = "venv_added"
	VenvRemoved      Kind = "venv_removed"
	FunctionPut      Kind = "function_put"
	FunctionRemoved  Kind = "function_removed"
	ServerPut        Kind = "server_put"
	ServerRemoved    Kind = "server_removed"

	NodeStarted Kind = "node_started"
	NodeStopped Kind = "node_stopped"
	// HeadWitnessed records the head of another node's log; Target is that node.
	HeadWitnessed Kind = "head_witnessed"

	// LogCut: the bytes before it are an incomplete entry, as a crash leaves it. LogGap:
	// entries were lost because they could not be written. LogDropped: old files were
	// removed because of MaxBytes or MaxAge.
	LogCut     Kind = "log_cut"
	LogGap     Kind = "log_gap"
	LogDropped Kind = "log_dropped"
)

// Kinds lists all kinds of entries.
func Kinds() []Kind {
	return []Kind{
		CallStarted, CallEnded, CallRefused, CallRepeated, CallAmended, CallSteered, PrimitiveUse, SessionClosed, SessionReset, SessionForked,
		ActorCreated, ActorEnded, TokenCreated, TokenRevoked, NodeDrained, NodeLabelled, NodeRemoved, AuthorityRotated, MachineUnlinked,
		VenvAdded, VenvRemoved, FunctionPut, FunctionRemoved, ServerPut, ServerRemoved, NodeStarted, NodeStopped, HeadWitnessed, LogCut, LogGap, LogDropped,
	}
}

// Bounds on what one entry holds.
const (
	// MaxLine is the longest line, in bytes, with its newline.
	MaxLine = 256 << 10
	// maxNames is how many names of each kind a state diff keeps, maxDetail how many
	// details an entry may have. maxText is the longest text, in bytes, that does not come
	// from the node itself; thoughts are not cut to it.
	maxNames  = 200
	maxDetail = 16
	maxText   = 512
)

// bounded returns the entry with its texts and lists cut to these bounds.
func (e Entry) bounded() Entry {
	clip := func(text string) string {
		if len(text) <= maxText {
			return text
		}
		e.Clipped = true
		return text[:maxText]
	}
	names := func(list []string) []string {
		if len(list) > maxNames {
			e.Clipped = true
			list = list[:maxNames]
		}
		return list
	}
	e.Actor, e.Target, e.Machine, e.Function = clip(e.Actor), clip(e.Target), clip(e.Machine), clip(e.Function)
	if e.SessionName != nil {
		name := clip(*e.SessionName)
		e.SessionName = &name
	}
	if p := e.Primitive; p != nil && len(p.Name) > maxText {
		short := *p
		short.Name = clip(p.Name)
		e.Primitive = &short
	}
	if len(e.Detail) > 0 {
		detail := make(map[string]string, len(e.Detail))
		for _, k := range slices.Sorted(maps.Keys(e.Detail)) {
			if len(detail) == maxDetail {
				e.Clipped = true
				break
			}
			detail[clip(k)] = clip(e.Detail[k])
		}
		e.Detail = detail
	}
	if d := e.StateDiff; d != nil {
		e.StateDiff = &surfaces.StateDiff{Added: names(d.Added), Changed: names(d.Changed), Removed: names(d.Removed)}
	}
	return e
}

// bare returns the entry without the fields that bounded leaves long.
func (e Entry) bare() Entry {
	e.Thought, e.StateDiff, e.Detail, e.Clipped = "", nil, nil, true
	return e
}

// weight estimates the size of the entry in bytes.
func (e *Entry) weight() int {
	w := 768 + len(e.Thought)
	if d := e.StateDiff; d != nil {
		for _, names := range [][]string{d.Added, d.Changed, d.Removed} {
			for _, name := range names {
				w += 16 + len(name)
			}
		}
	}
	return w
}
