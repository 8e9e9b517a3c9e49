package surfaces

import (
	"encoding/json"
	"time"
)

// Status is the state of a call.
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

// Result is the JSON object that answers every call, whatever happened. Fields without
// omitempty are always present, and null if they do not apply.
type Result struct {
	CallID string `json:"call_id"`
	Status Status `json:"status"`

	Stdout    string      `json:"stdout"`
	Stderr    string      `json:"stderr"`
	Truncated *Truncation `json:"truncated"`

	// Result is the value of the last expression: the value itself if it is plain JSON data,
	// else its repr as a JSON string. Null if there is none.
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
	// Notice holds remarks beside the result, such as what a copy of a session could not
	// include.
	Notice []Notice `json:"notice"`
	// Files are those that the code left in OutFolder, on linked machines only.
	Files []File `json:"files,omitempty"`

	http int // see Refusal.HTTP; not encoded
}

// Truncation says, per stream, how much of the output is shown. A stream that is shown in
// full is nil.
type Truncation struct {
	Stdout *Shown `json:"stdout,omitempty"`
	Stderr *Shown `json:"stderr,omitempty"`
}

// Shown counts bytes as the code wrote them.
type Shown struct {
	Shown int64 `json:"shown"`
	Total int64 `json:"total"`
}

// Display is one rich representation. Data is text for text types, else base64.
type Display struct {
	MIME string `json:"mime"`
	Data string `json:"data"`
}

// Exception is what Python code raised, with the line numbers of the caller's code.
type Exception struct {
	Type      string `json:"type"`
	Message   string `json:"message"`
	Traceback string `json:"traceback"`
	// Line is the innermost line of the call's program on the stack, from 1. If there is
	// none, it is that of other code of the caller; 0 if unknown.
	Line int `json:"line"`
}

// Exit says how the process or program of a call ended. Either Code is set, or Signal and
// Reason.
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

// StateLost is a loss; in JSON it is false if nothing was lost.
type StateLost struct{ *Loss }

// Loss says why, when (RFC 3339) and at which epoch a session's state was lost.
type Loss struct {
	Reason string `json:"reason"`
	At     string `json:"at"`
	Epoch  uint64 `json:"epoch"`
}

// MarshalJSON encodes the loss, or false.
func (s StateLost) MarshalJSON() ([]byte, error) {
	if s.Loss == nil {
		return []byte("false"), nil
	}
	return json.Marshal(s.Loss)
}

// UnmarshalJSON decodes false, null or a loss.
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

// Usage is the resource usage of a call.
type Usage struct {
	CPUMS       float64 `json:"cpu_ms"`
	MaxRSSBytes int64   `json:"max_rss_bytes"`
	Primitives  int     `json:"primitives"`
}

// Milliseconds returns a duration in milliseconds, rounded down to the microsecond.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// The kinds of notices that more than one package uses.
const (
	// NoticeRetry stands between a lost attempt and its retry. The output before it is that
	// of the first attempt and not part of the result.
	NoticeRetry = "retry"
	// NoticeEnvironment reports the progress of the build of an environment.
	NoticeEnvironment = "environment"
)

// Notice is one remark beside a result. Kind is stable, Text is for people.
type Notice struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}
