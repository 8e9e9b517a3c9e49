package surfaces

import (
	"encoding/json"
	"time"
)

// Status is where a call stands.
type Status string

// The four states that a caller can see.
const (
	StatusDone    Status = "done"
	StatusRunning Status = "running"
	StatusRefused Status = "refused"
	StatusFailed  Status = "failed"
)

// Statuses lists every state in its fixed order.
func Statuses() []Status { return []Status{StatusDone, StatusRunning, StatusRefused, StatusFailed} }

// Result is the one JSON object that answers every call, whatever happened.
// Fields without omitempty are always present, null where they say nothing.
type Result struct {
	CallID string `json:"call_id"`
	Status Status `json:"status"`

	Stdout    string      `json:"stdout"`
	Stderr    string      `json:"stderr"`
	Truncated *Truncation `json:"truncated"`

	// Result is the value of the last expression: itself when it is plain JSON
	// data, else its repr as a JSON string. Null when there is none.
	Result     json.RawMessage `json:"result"`
	ResultType *string         `json:"result_type"`
	Display    []Display       `json:"display"`

	Error      *string    `json:"error"`
	ErrorType  *ErrorType `json:"error_type"`
	Code       *Code      `json:"code"`
	Suggestion *string    `json:"suggestion"`
	Fix        *Fix       `json:"fix"`
	// RetryAfterS is set on some unavailable answers.
	RetryAfterS *float64 `json:"retry_after_s,omitempty"`

	Exception *Exception `json:"exception"`
	Exit      *Exit      `json:"exit"`

	Language       *Language  `json:"language"`
	StateMode      *StateMode `json:"state_mode"`
	SessionID      *int       `json:"session_id"`
	SessionName    *string    `json:"session_name"`
	VenvID         *int       `json:"venv_id"`
	Surface        *Place     `json:"surface"`
	Machine        *string    `json:"machine"`
	Node           string     `json:"node"`
	SessionCreated bool       `json:"session_created"`
	DurationMS     float64    `json:"duration_ms"`
	Attempts       int        `json:"attempts"`
	StateLost      StateLost  `json:"state_lost"`
	StateDiff      *StateDiff `json:"state_diff"`
	Usage          *Usage     `json:"usage"`
	// Notice holds what the caller should know beside the result, such as what a
	// copy of a session could not bring along.
	Notice []Notice `json:"notice"`
	// Files are what the code left in its folder out, on linked machines only.
	Files []File `json:"files,omitempty"`

	http int // see Refusal.HTTP; it does not travel
}

// Truncation tells, per stream, how much of an output is shown. A stream that
// is shown whole is nil.
type Truncation struct {
	Stdout *Shown `json:"stdout,omitempty"`
	Stderr *Shown `json:"stderr,omitempty"`
}

// Shown counts bytes as the code wrote them.
type Shown struct {
	Shown int64 `json:"shown"`
	Total int64 `json:"total"`
}

// Display is one rich representation. Data is text for text types and base64
// for the others.
type Display struct {
	MIME string `json:"mime"`
	Data string `json:"data"`
}

// Exception is what Python code raised, in the caller's own line numbers.
type Exception struct {
	Type      string `json:"type"`
	Message   string `json:"message"`
	Traceback string `json:"traceback"`
	// Line is the innermost line of the program that was given, from 1; where none of
	// it is on the stack, that of other code of the caller's; 0 when unknown.
	Line int `json:"line"`
}

// Exit says how the process or the program under a call ended. Either Code is
// set, or Signal with the Reason.
type Exit struct {
	Code   *int   `json:"code,omitempty"`
	Signal string `json:"signal,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Reasons in Exit.Reason.
const (
	ReasonSegfault = "segfault"
	ReasonOOM      = "oom"
	ReasonTimeout  = "timeout"
	ReasonStopped  = "stopped"
	ReasonKilled   = "killed"
)

// StateLost is false in JSON when nothing was lost.
type StateLost struct{ *Loss }

// Loss says why, when (RFC 3339) and at which epoch a session's state was lost.
type Loss struct {
	Reason string `json:"reason"`
	At     string `json:"at"`
	Epoch  uint64 `json:"epoch"`
}

// MarshalJSON gives false or the loss.
func (s StateLost) MarshalJSON() ([]byte, error) {
	if s.Loss == nil {
		return []byte("false"), nil
	}
	return json.Marshal(s.Loss)
}

// UnmarshalJSON takes false, null or a loss.
func (s *StateLost) UnmarshalJSON(b []byte) error {
	if string(b) == "false" || string(b) == "null" {
		s.Loss = nil
		return nil
	}
	s.Loss = new(Loss)
	return json.Unmarshal(b, s.Loss)
}

// StateDiff lists top-level names. Changed means bound to another value.
type StateDiff struct {
	Added   []string `json:"added"`
	Changed []string `json:"changed"`
	Removed []string `json:"removed"`
}

// Usage is what a call cost.
type Usage struct {
	CPUMS       float64 `json:"cpu_ms"`
	MaxRSSBytes int64   `json:"max_rss_bytes"`
	Primitives  int     `json:"primitives"`
}

// Milliseconds gives a duration in the unit of results, which is exact to the microsecond.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// The kinds of notices that more than one package gives or looks for.
const (
	// NoticeRetry stands between an attempt that was lost and its retry. The output before
	// it is the first attempt's, and no part of the result.
	NoticeRetry = "retry"
	// NoticeEnvironment tells how far the build of an environment is.
	NoticeEnvironment = "environment"
)

// Notice is one remark beside a result. Kind is stable, Text is for people.
type Notice struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}
