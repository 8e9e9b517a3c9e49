package history

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// Promise names what a history can show to be broken.
type Promise string

const (
	// LossReported: state is lost only when somebody is told, and old state never comes back.
	LossReported Promise = "loss_told"
	// Starts: code runs as often as its caller is told at most.
	Starts Promise = "starts"
	// SingleOwner: no two generations of a session are at work at the same time.
	SingleOwner Promise = "one_owner"
	// ReadersSee: a reader is never served from a session that was rebuilt empty.
	ReadersSee Promise = "readers_see"
)

// Violation is one broken promise, told in a sentence.
type Violation struct {
	Promise Promise `json:"promise"`
	Text    string  `json:"text"`
	// Undecided says that nobody knows: the search for an order took too long.
	Undecided bool `json:"undecided,omitempty"`
}

// String gives the sentence.
func (v Violation) String() string { return v.Text }

// Check gives what is wrong with a history; nothing when every promise was kept.
// patience bounds the search of each session.
func Check(calls []Call, marks []Mark, patience time.Duration) []Violation {
	wrong := starts(calls, marks)
	wrong = append(wrong, alone(marks)...)
	by := bySession(calls)
	for _, session := range slices.Sorted(maps.Keys(by)) {
		some := by[session]
		wrong = append(wrong, told(session, some)...)
		switch porcupine.CheckOperationsTimeout(model, operations(some), patience) {
		case porcupine.Illegal:
			wrong = append(wrong, broken(LossReported, "session %s: no order of the calls explains what they saw", session))
		case porcupine.Unknown:
			long := broken(LossReported, "session %s: the search for an order took too long", session)
			long.Undecided = true
			wrong = append(wrong, long)
		}
	}
	return wrong
}

func broken(p Promise, format string, args ...any) Violation {
	return Violation{Promise: p, Text: fmt.Sprintf(format, args...)}
}

func bySession(calls []Call) map[string][]Call {
	by := map[string][]Call{}
	for _, c := range calls {
		if c.Session != "" {
			by[c.Session] = append(by[c.Session], c)
		}
	}
	return by
}

// starts compares how often code ran with what its caller was told.
func starts(calls []Call, marks []Mark) (wrong []Violation) {
	ran := map[string]int{}
	for _, m := range marks {
		if m.Start {
			ran[m.Token]++
		}
	}
	for _, c := range calls {
		n := ran[c.Token]
		most := c.Attempts
		if c.Silent {
			most = 2
		}
		if c.Once {
			most = min(most, 1)
		}
		switch {
		case c.Outcome == NothingRan && n > 0:
			wrong = append(wrong, broken(Starts, "%s ran %d times, and its caller was told that nothing ran: %s", c.Token, n, c.Text))
		case c.Attempts > 2:
			wrong = append(wrong, broken(Starts, "%s had %d attempts: %s", c.Token, c.Attempts, c.Text))
		case !c.Read && n > most:
			wrong = append(wrong, broken(Starts, "%s ran %d times in %d attempts: %s", c.Token, n, c.Attempts, c.Text))
		case !c.Read && c.Outcome == Answered && n == 0:
			wrong = append(wrong, broken(Starts, "%s was answered and never ran: %s", c.Token, c.Text))
		}
	}
	return wrong
}

// alone finds sessions whose code ran in two generations at the same time: once a
// generation has left a mark, an earlier one leaves none.
func alone(marks []Mark) (wrong []Violation) {
	marks = slices.Clone(marks)
	slices.SortStableFunc(marks, func(a, b Mark) int { return int(a.At - b.At) })
	now := map[string]string{}
	over := map[string]bool{}
	for _, m := range marks {
		if m.Session == "" || now[m.Session] == m.Generation {
			continue
		}
		if over[m.Generation] {
			wrong = append(wrong, broken(SingleOwner, "session %s: generation %s ran %s after a later one had begun", m.Session, m.Generation, m.Token))
		}
		over[now[m.Session]] = true
		now[m.Session] = m.Generation
	}
	return wrong
}

// told finds answers out of a rebuilt session that came before anybody could have
// been told of the loss, and second attempts that do not speak of it.
func told(session string, calls []Call) (wrong []Violation) {
	first := ""
	var ends int64 // the first return of an answer out of the first generation
	for _, c := range calls {
		if c.Outcome == Answered && c.Generation != "" && (first == "" || c.Returned < ends) {
			first, ends = c.Generation, c.Returned
		}
	}
	for _, c := range calls {
		if c.Attempts > 1 && !c.Told && c.Outcome != NothingRan {
			wrong = append(wrong, broken(LossReported, "session %s: %s lost its first attempt and does not speak of lost state: %s", session, c.Token, c.Text))
		}
		fresh := c.Generation == "" && (first == "" || c.Invoked < ends) // nothing was there yet
		if c.Outcome != Answered || c.Told || c.Generation == first || fresh {
			continue
		}
		alive := aliveUntil(calls, c)
		if !slices.ContainsFunc(calls, func(t Call) bool {
			// Who was told, and saw nothing of what came after it, was told of this loss
			// only if it had not ended before.
			same := t.Generation == "" && t.Returned > alive || t.Generation != "" && t.Generation == c.Generation
			return (t.Told && t.Outcome != Lost || t.Silent) && t.Invoked < c.Returned && same
		}) {
			promise := LossReported
			if c.Read && c.Generation == "" {
				promise = ReadersSee
			}
			wrong = append(wrong, broken(promise, "session %s: %s was answered out of a rebuilt session before anybody was told: %s", session, c.Token, c.Text))
		}
	}
	return wrong
}

// aliveUntil gives a time at which what was there before a call's generation was surely
// not lost yet: the latest call that was answered out of it had begun, and not ended.
func aliveUntil(calls []Call, c Call) (until int64) {
	begins := c.Invoked // of the first call that was answered out of c's generation
	for _, p := range calls {
		if p.Outcome == Answered && p.Generation == c.Generation && c.Generation != "" {
			begins = min(begins, p.Invoked)
		}
	}
	for _, p := range calls {
		if p.Outcome == Answered && p.Generation != c.Generation && p.Generation != "" && p.Returned < begins {
			until = max(until, p.Invoked)
		}
	}
	return until
}
