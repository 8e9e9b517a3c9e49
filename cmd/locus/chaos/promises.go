package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/locusrun/locus/placement/history"
	"github.com/locusrun/locus/surfaces"
)

// The promises checked by this package besides those of placement/history.
const (
	// OneAnswer: a call has only one outcome, however often it is asked for.
	OneAnswer history.Promise = "one_answer"
	// InTime: an answer comes by the deadline plus the contract's grace and the slack.
	InTime history.Promise = "in_time"
	// Answers: every call to a node that is up is answered, and only with codes that a lost
	// node or network explains.
	Answers history.Promise = "answers"
	// Drains: a node exits with status 0 after SIGTERM.
	Drains history.Promise = "drains"
	// Heals: once all faults are mended, everything works.
	Heals history.Promise = "heals"
)

// Promise is one promise, and what it says.
type Promise struct {
	Promise history.Promise
	Says    string
}

// Promises lists all promises that are checked.
func Promises() []Promise {
	return []Promise{
		{history.LossReported, "state is lost only when somebody is told, and old state never comes back"},
		{history.ReadersSee, "a reader is never served from a session that was rebuilt empty"},
		{history.Starts, "code runs at most as often as its caller is told"},
		{history.SingleOwner, "no two generations of a session run code at the same time"},
		{OneAnswer, "no call is answered twice differently"},
		{InTime, "every answer comes by its deadline, 1.5 s and the slack"},
		{Answers, "every call is answered while the node it was sent to is up, with a code that the fault explains"},
		{Drains, "a node that gets SIGTERM exits with status 0"},
		{Heals, "once all faults have ended, everything works"},
	}
}

// grace is how late an answer may be by the contract.
const grace = 1500 * time.Millisecond

// searches bounds the search for a valid order of one session's calls.
const searches = time.Minute

// violations returns all violations in a history.
func violations(h *History) (wrong []history.Violation) {
	var calls []history.Call
	for _, c := range h.Calls {
		seen, problem := seen(c)
		if problem != "" {
			wrong = append(wrong, violation(Answers, "%s: %s", c.Token, problem))
		}
		calls = append(calls, seen)
		wrong = append(wrong, h.door(c)...)
		wrong = append(wrong, again(c)...)
	}
	var marks []history.Mark
	for _, m := range h.Marks {
		marks = append(marks, history.Mark(m))
	}
	if h.End != nil {
		wrong = append(wrong, history.Check(calls, marks, searches)...)
	} // otherwise the marks and the calls in flight are missing
	for _, f := range h.Faults {
		if f.Status != nil && *f.Status != 0 {
			wrong = append(wrong, violation(Drains, "node %d ended with status %d", f.Node, *f.Status))
		}
		if f.Problem != "" {
			wrong = append(wrong, violation(Heals, "%s of node %d could not be ended: %s", f.Kind, f.Node, f.Problem))
		}
	}
	for _, l := range h.Healed {
		if l.Problem != "" {
			wrong = append(wrong, violation(Heals, "at node %d, %s: %s", l.Node, l.What, l.Problem))
		}
	}
	if h.End != nil && h.End.Problem != "" {
		wrong = append(wrong, violation(Heals, "%s", h.End.Problem))
	}
	return wrong
}

func violation(p history.Promise, format string, args ...any) history.Violation {
	return history.Violation{Promise: p, Text: fmt.Sprintf(format, args...)}
}

// seen derives the fate of a call's code from its answer, and returns what is wrong with
// the answer itself.
func seen(c Call) (h history.Call, problem string) {
	h = history.Call{
		Client: c.Node, Token: c.Token, Read: c.Program == programRead, Once: c.Arguments.OnLoss != nil && *c.Arguments.OnLoss != "retry",
		Invoked: c.Began, Returned: c.Ended, Outcome: history.Unknown,
	}
	if c.Arguments.SessionName != nil {
		h.Session = *c.Arguments.SessionName
	}
	if c.Answer == nil {
		h.Text = string(c.Problem.Kind) + ": " + c.Problem.Text
		h.Silent = c.Problem.Kind != Unreachable
		if !h.Silent {
			h.Outcome = history.NothingRan
		}
		return h, ""
	}
	a := *c.Answer
	h.Text = a.text()
	if err := h.Answer(surfaces.Result{Code: a.Code, Result: a.Result, StateLost: a.StateLost, Attempts: a.Attempts}); err != nil {
		return h, err.Error() + ": " + h.Text
	}
	return h, ""
}

// text describes an answer.
func (a Answer) text() string {
	text, err := json.Marshal(a)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// door checks what depends only on the node that was called: whether and when an answer
// came.
func (h *History) door(c Call) []history.Violation {
	if c.Problem != nil {
		switch {
		case c.Problem.Kind == Interrupted:
		case c.Problem.Kind == GaveUp:
			return []history.Violation{violation(InTime, "%s: no answer within %s, with a deadline of %gs", c.Token, took(c), *c.Arguments.TimeoutS)}
		case !h.hit(c, Kill, Restart):
			return []history.Violation{violation(Answers, "%s: node %d was neither killed nor shut down, and did not answer: %s", c.Token, c.Node, c.Problem.Text)}
		}
		return nil
	}
	if late := h.late(c); late > grace+h.Run.Slack() {
		return []history.Violation{violation(InTime, "%s: answered %s after its deadline of %gs: %s", c.Token, late.Round(time.Millisecond), *c.Arguments.TimeoutS, c.Answer.text())}
	}
	return nil
}

func took(c Call) time.Duration { return time.Duration(c.Ended - c.Began) }

// hit reports whether a fault of the given kinds affected the called node during the call.
func (h *History) hit(c Call, kinds ...Kind) bool {
	return slices.ContainsFunc(h.Faults, func(f Fault) bool {
		return f.Node == c.Node && slices.Contains(kinds, f.Kind) && f.Began <= c.Ended && (f.Ended == 0 || f.Ended >= c.Began)
	})
}

// late is how long after its deadline a call was answered; negative before it. Time during
// which the node was suspended does not count: it could answer only afterwards, and starts
// on a request that it had not read only then.
func (h *History) late(c Call) time.Duration {
	deadline := c.Began + int64(seconds(*c.Arguments.TimeoutS))
	for _, f := range h.Faults {
		if f.Kind == Stop && f.Node == c.Node && f.Began <= c.Ended && f.Ended >= c.Began {
			deadline = max(deadline, f.Ended+int64(seconds(*c.Arguments.TimeoutS)))
		}
	}
	return time.Duration(c.Ended - deadline)
}

// again checks the outcome that was asked for after the answer.
func again(c Call) []history.Violation {
	if c.Again == nil || c.Again.Answer == nil || c.Answer == nil || c.Answer.Code != nil {
		return nil
	}
	first, second := *c.Answer, *c.Again.Answer
	if second.Code != nil {
		switch *second.Code {
		case surfaces.CodeOwnerUnreachable, surfaces.CodeNoQuorum, surfaces.CodeNoCapacity, surfaces.CodeOutcomeUnknown:
			return nil // no statement about the call
		case surfaces.CodeInvalidArgument:
			if c.Again.By == "id" {
				return nil // the call is no longer kept
			}
		}
	}
	if first.CallID != second.CallID || first.Status != second.Status || second.Code != nil || !bytes.Equal(first.Result, second.Result) ||
		first.Attempts != second.Attempts || (first.StateLost.Loss == nil) != (second.StateLost.Loss == nil) {
		return []history.Violation{violation(OneAnswer, "%s was answered %s, and by its %s at node %d %s", c.Token, first.text(), c.Again.By, c.Again.Node, second.text())}
	}
	return nil
}
