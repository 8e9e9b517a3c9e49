package chaos

import (
	"encoding/json"
	"time"

	"github.com/locusrun/locus/node/gateway/client"
	"github.com/locusrun/locus/surfaces"
)

// Format is the version of the history format, and the only one supported.
const Format = 1

// Line is one line of a history; exactly one field is set. All times are nanoseconds on the
// machine's monotonic clock since the start of the run.
type Line struct {
	Run    *Run    `json:"run,omitempty"`    // the first line
	Call   *Call   `json:"call,omitempty"`   // written when it has its answer
	Fault  *Fault  `json:"fault,omitempty"`  // written at its start, and again at its end
	Healed *Healed `json:"healed,omitempty"` // result of a final check
	Mark   *Mark   `json:"mark,omitempty"`
	End    *End    `json:"end,omitempty"` // the last line
}

// Run describes the run: its options and environment.
type Run struct {
	Format    int       `json:"format"`
	Version   string    `json:"version"`
	StartedAt time.Time `json:"started_at"`
	Seed      uint64    `json:"seed"`
	// Nodes are the ids of the nodes. Lines refer to them by number, starting at 1.
	Nodes  []string `json:"nodes"`
	Fast   bool     `json:"fast"`
	Faults []Kind   `json:"faults"`
	// ForS is how long faults are injected, SlackS how much later than promised an answer
	// may come; in seconds.
	ForS   float64 `json:"for_s"`
	SlackS float64 `json:"slack_s"`
	// Programs are the texts of the calls' code by name, as Go format strings.
	Programs map[string]string `json:"programs"`
}

// For is how long faults are injected.
func (r *Run) For() time.Duration { return seconds(r.ForS) }

// Slack is how much later than promised an answer may come.
func (r *Run) Slack() time.Duration { return seconds(r.SlackS) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Call is one call of a client.
type Call struct {
	// Token is unique to the call; its code stores it in the session.
	Token string `json:"token"`
	// Node is the number of the called node.
	Node int `json:"node"`
	// Program is the name of the code, Arguments are the other arguments.
	Program   string           `json:"program"`
	Arguments client.Arguments `json:"arguments"`
	Began     int64            `json:"began_ns"`
	Ended     int64            `json:"ended_ns"`
	// Answer is nil if there was none; Problem then says why.
	Answer  *Answer  `json:"answer,omitempty"`
	Problem *Problem `json:"problem,omitempty"`
	// Again is a later question for the same call's outcome.
	Again *Again `json:"again,omitempty"`
}

// Answer is the part of a result that is checked.
type Answer struct {
	CallID    string             `json:"call_id"`
	Status    surfaces.Status    `json:"status"`
	Code      *surfaces.Code     `json:"code"`
	Error     *string            `json:"error,omitempty"`
	Result    json.RawMessage    `json:"result"`
	Attempts  int                `json:"attempts"`
	StateLost surfaces.StateLost `json:"state_lost"`
	// Node is the number of the node that ran the code; 0 if it is not of this run.
	Node   int      `json:"node"`
	Notice []string `json:"notice,omitempty"` // their kinds
}

// Problem says why a call has no answer.
type Problem struct {
	Kind ProblemKind `json:"kind"`
	Text string      `json:"text"`
}

// ProblemKind classifies calls without an answer by what is known of them.
type ProblemKind string

const (
	// Unreachable: nobody listened, so nothing has run.
	Unreachable ProblemKind = "unreachable"
	// Broken: the connection ended before the answer came.
	Broken ProblemKind = "broken"
	// GaveUp: the client stopped waiting, after longer than any promise.
	GaveUp ProblemKind = "gave_up"
	// Interrupted: the run was interrupted.
	Interrupted ProblemKind = "interrupted"
)

// Again is a later question for a call's outcome; it runs nothing.
type Again struct {
	// By is how it was asked: by idempotency "key" or by call "id".
	By      string   `json:"by"`
	Node    int      `json:"node"`
	Answer  *Answer  `json:"answer,omitempty"`
	Problem *Problem `json:"problem,omitempty"`
}

// Fault is one injected fault.
type Fault struct {
	Number int    `json:"number"`
	Kind   Kind   `json:"kind"`
	Target Target `json:"target"`
	// Node is the number of the affected node; 0 for the whole network.
	Node  int   `json:"node"`
	Began int64 `json:"began_ns"`
	// Ended is when it was mended; 0 before that.
	Ended int64 `json:"ended_ns"`
	// Status is the exit status of a drained node.
	Status *int `json:"status,omitempty"`
	// Problem says why it could not be mended.
	Problem string `json:"problem,omitempty"`
}

// Healed is the result of one final check.
type Healed struct {
	// Node is the number of the node that was asked, What the check.
	Node  int    `json:"node"`
	What  string `json:"what"`
	Began int64  `json:"began_ns"`
	Ended int64  `json:"ended_ns"`
	// Problem says what did not work; empty if it worked.
	Problem string `json:"problem,omitempty"`
}

// Mark is a line that running code has written to the outside file.
type Mark struct {
	Session    string `json:"session,omitempty"`
	Generation string `json:"generation"`
	Token      string `json:"token"`
	Start      bool   `json:"start,omitempty"`
	At         int64  `json:"at_ns"`
}

// End is the end of the run.
type End struct {
	At int64 `json:"at_ns"`
	// Interrupted says that the run was interrupted.
	Interrupted bool `json:"interrupted"`
	// Problem says why the run ended early by itself.
	Problem string `json:"problem,omitempty"`
}
