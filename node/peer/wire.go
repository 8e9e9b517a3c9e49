package peer

import (
	"cmp"
	"time"

	"github.com/locusrun/locus/node/calls"
	"github.com/locusrun/locus/surfaces"
	"github.com/locusrun/locus/surfaces/tracing"
)

// attempt is the header of a request to run an attempt, or to follow it again after a
// broken stream. The message consists of the header and the program, each after its length,
// and the standard input.
type attempt struct {
	CallID string `json:"call_id"`
	// Number counts the call's attempts from 1.
	Number int    `json:"number"`
	Actor  string `json:"actor"`
	// Life is the life of the called node for which the route was made.
	Life      uint64             `json:"life"`
	Language  surfaces.Language  `json:"language"`
	StateMode surfaces.StateMode `json:"state_mode"`
	OnLoss    surfaces.OnLoss    `json:"on_loss"`
	// Timeout is the remaining time until the deadline, and Of the caller's whole timeout
	// if it differs.
	Timeout    time.Duration `json:"timeout_ns"`
	Of         time.Duration `json:"of_ns,omitempty"`
	Atomic     bool          `json:"atomic,omitempty"`
	Keep       *bool         `json:"keep,omitempty"`
	Background bool          `json:"background,omitempty"`
	Thought    string        `json:"thought,omitempty"`
	Parent     string        `json:"parent,omitempty"`
	// What the caller gave, for the coordinates in the result.
	SessionID   *int     `json:"session_id,omitempty"`
	SessionName *string  `json:"session_name,omitempty"`
	VenvID      *int     `json:"venv_id,omitempty"`
	Session     *session `json:"session,omitempty"`
	// From is where the stream should continue.
	From calls.Mark `json:"from"`
	// Trace is the trace of which the attempt is a part.
	Trace tracing.Carrier `json:"trace,omitempty"`
}

// session is the session to which the route leads.
type session struct {
	ID   int    `json:"id"`
	Venv int    `json:"venv,omitempty"`
	Name string `json:"name,omitempty"`
	// Epoch is the one under which the called node owns the session.
	Epoch uint64 `json:"epoch"`
}

// end is the last part of an attempt, or of a call that was followed.
type end struct {
	Result surfaces.Result `json:"result"`
	Loss   *lost           `json:"loss,omitempty"`
	// Stdout and Stderr are the numbers of bytes written.
	Stdout int64 `json:"stdout"`
	Stderr int64 `json:"stderr"`
}

type lost struct {
	// Before, MayHaveRun and the others are those of surfaces.LostAttempt.
	Before     bool      `json:"before,omitempty"`
	MayHaveRun bool      `json:"may_have_run,omitempty"`
	Reason     string    `json:"reason"`
	At         time.Time `json:"at"`
	Epoch      uint64    `json:"epoch,omitempty"`
}

func newAttempt(a *surfaces.Attempt, life uint64, remaining time.Duration) attempt {
	c := &a.Call
	w := attempt{
		CallID: a.CallID, Number: a.Number, Actor: a.Actor, Life: life, Language: c.Language, StateMode: c.StateMode,
		OnLoss: c.OnLoss, Timeout: max(remaining, 1), Atomic: c.Atomic, Keep: c.Keep, Background: c.Background, Thought: c.Thought,
		Parent: c.Parent, SessionID: c.SessionID, SessionName: c.SessionName, VenvID: c.VenvID,
	}
	if w.Timeout != c.Timeout {
		w.Of = c.Timeout
	}
	if s := c.Session; s != nil {
		w.Session = &session{ID: s.Key.ID, Venv: s.Key.Venv, Name: s.Name, Epoch: s.Epoch}
	}
	return w
}

// call returns the call that the attempt is to run.
func (w *attempt) call(code, stdin string) surfaces.Call {
	c := surfaces.Call{Actor: w.Actor, Parent: w.Parent, Request: surfaces.Request{
		Code: code, Stdin: stdin, Language: w.Language, StateMode: w.StateMode, OnLoss: w.OnLoss, Timeout: cmp.Or(w.Of, w.Timeout),
		Atomic: w.Atomic, Keep: w.Keep, Background: w.Background, Thought: w.Thought, Surface: surfaces.Local,
		SessionID: w.SessionID, SessionName: w.SessionName, VenvID: w.VenvID,
	}}
	if s := w.Session; s != nil {
		c.Session = &surfaces.SessionRef{
			Key:  surfaces.SessionKey{Actor: w.Actor, Language: w.Language, Venv: s.Venv, ID: s.ID},
			Name: s.Name, Exists: true, Epoch: s.Epoch, State: surfaces.SessionLive,
		}
	}
	return c
}

func newEnd(out surfaces.Outcome) end {
	e := end{Result: out.Result}
	if l := out.Loss; l != nil {
		e.Loss = &lost{Before: l.Before, MayHaveRun: l.MayHaveRun, Reason: l.Reason, At: l.At, Epoch: l.Epoch}
	}
	return e
}

func (e *end) outcome() surfaces.Outcome {
	out := surfaces.Outcome{Result: e.Result}
	if l := e.Loss; l != nil {
		out.Loss = &surfaces.LostAttempt{Before: l.Before, MayHaveRun: l.MayHaveRun, Reason: l.Reason, At: l.At, Epoch: l.Epoch}
	}
	return out
}
