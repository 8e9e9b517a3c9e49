package chaos

import (
	"encoding/json"
	"time"

	"github.com/locusrun/locus/node/gateway/client"
	"github.com/locusrun/locus/surfaces"
)

// Format is the version of the history that this program writes, and the only one that
// it reads.
const Format = 1

// Line is one line of a history: exactly one field is set. All times are nanoseconds of
// the machine's monotonic clock since the run began.
type Line struct {
	Run    *Run    `json:"run,omitempty"`    // the first line
	Call   *Call   `json:"call,omitempty"`   // when its answer is there
	Fault  *Fault  `json:"fault,omitempty"`  // when it begins, and once more when it has ended
	Healed *Healed `json:"healed,omitempty"` // what works after the last fault, or does not
	Mark   *Mark   `json:"mark,omitempty"`
	End    *End    `json:"end,omitempty"` // the last line
}

// Run says what the run was told and where it took place.
type Run struct {
	Format    int       `json:"format"`
	Version   string    `json:"version"`
	StartedAt time.Time `json:"started_at"`
	Seed      uint64    `json:"seed"`
	// Nodes are the ids of the nodes; the first one is number 1 in all that follows.
	Nodes  []string `json:"nodes"`
	Fast   bool     `json:"fast"`
	Faults []Kind   `json:"faults"`
	// ForS is for how long faults come, SlackS how much later than promised an answer may
	// come, in seconds.
	ForS   float64 `json:"for_s"`
	SlackS float64 `json:"slack_s"`
	// Programs are the texts of the calls' code by name, in Go's notation of formats.
	Programs map[string]string `json:"programs"`
}

// For is how long faults come.
func (r *Run) For() time.Duration { return seconds(r.ForS) }

// Slack is how much later than promised an answer may come.
func (r *Run) Slack() time.Duration { return seconds(r.SlackS) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Call is one call of one client.
type Call struct {
	// Token is the call's own, and what its code leaves in the session.
	Token string `json:"token"`
	// Node is the number of the node that was asked.
	Node int `json:"node"`
	// Program names the text of the code, Arguments are all others.
	Program   string           `json:"program"`
	Arguments client.Arguments `json:"arguments"`
	Began     int64            `json:"began_ns"`
	Ended     int64            `json:"ended_ns"`
	// Answer is nil where none came, and Problem then says why.
	Answer  *Answer  `json:"answer,omitempty"`
	Problem *Problem `json:"problem,omitempty"`
	// Again is the same call asked for once more, after its answer.
	Again *Again `json:"again,omitempty"`
}

// Answer is what of a call's result is judged.
type Answer struct {
	CallID    string             `json:"call_id"`
	Status    surfaces.Status    `json:"status"`
	Code      *surfaces.Code     `json:"code"`
	Error     *string            `json:"error,omitempty"`
	Result    json.RawMessage    `json:"result"`
	Attempts  int                `json:"attempts"`
	StateLost surfaces.StateLost `json:"state_lost"`
	// Node is the number of the node where the code ran; 0 when it is none of the run's.
	Node   int      `json:"node"`
	Notice []string `json:"notice,omitempty"` // their kinds
}

// Problem says why a call has no answer.
type Problem struct {
	Kind ProblemKind `json:"kind"`
	Text string      `json:"text"`
}

// ProblemKind tells apart what is known of a call without an answer.
type ProblemKind string

const (
	// Unreachable: nobody listened at the door, so that nothing has run.
	Unreachable ProblemKind = "unreachable"
	// Broken: the connection ended before the answer came.
	Broken ProblemKind = "broken"
	// GaveUp: the client waited for longer than any promise, and went.
	GaveUp ProblemKind = "gave_up"
	// Interrupted: the run was ended from outside.
	Interrupted ProblemKind = "interrupted"
)

// Again is a second look at a call's outcome, which runs nothing.
type Again struct {
	// By says how it was asked for: by its idempotency "key", or by its call "id".
	By      string   `json:"by"`
	Node    int      `json:"node"`
	Answer  *Answer  `json:"answer,omitempty"`
	Problem *Problem `json:"problem,omitempty"`
}

// Fault is one thing that was broken.
type Fault struct {
	Number int    `json:"number"`
	Kind   Kind   `json:"kind"`
	Target Target `json:"target"`
	// Node is the number of the node that was hit; 0 for the whole network.
	Node  int   `json:"node"`
	Began int64 `json:"began_ns"`
	// Ended is when it was mended; 0 when it was not yet.
	Ended int64 `json:"ended_ns"`
	// Status is the exit status of a node that was drained.
	Status *int `json:"status,omitempty"`
	// Problem says what went wrong with mending it.
	Problem string `json:"problem,omitempty"`
}

// Healed is one thing that must work once everything is mended.
type Healed struct {
	// Node is the number of the node that was asked, What is what was asked for.
	Node  int    `json:"node"`
	What  string `json:"what"`
	Began int64  `json:"began_ns"`
	Ended int64  `json:"ended_ns"`
	// Problem says how it did not work; empty when it did.
	Problem string `json:"problem,omitempty"`
}

// Mark is a trace that running code has left outside.
type Mark struct {
	Session    string `json:"session,omitempty"`
	Generation string `json:"generation"`
	Token      string `json:"token"`
	Start      bool   `json:"start,omitempty"`
	At         int64  `json:"at_ns"`
}

// End says how the run ended.
type End struct {
	At int64 `json:"at_ns"`
	// Interrupted says that it was ended from outside before it was over.
	Interrupted bool `json:"interrupted"`
	// Problem says what made it end early by itself.
	Problem string `json:"problem,omitempty"`
}
