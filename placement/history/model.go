package history

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// state is what a session holds. owed says that what it held before was lost, and
// that nobody was told so far; lost, that it ever was.
type state struct {
	generation, list string
	owed, lost       bool
}

// step is one thing that surely happened to a session, at some moment between the
// ends of its call.
type step struct {
	kind       stepKind
	generation string
	list       string // afterwards; not looked at when unseen
	token      string
	told       bool
	unseen     bool // nobody knows what the code saw
}

type stepKind string

const (
	stepAppend stepKind = "append"
	stepRead   stepKind = "read"
	stepLost   stepKind = "lost" // a read found the state gone
	stepTold   stepKind = "told" // a call that failed spoke of lost state
)

// model is a session whose state may be lost at any moment, if somebody is told.
var model = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{state{}} },
	Step: func(now, input, _ any) []any {
		var next []any
		for _, s := range input.(step).after(now.(state)) {
			next = append(next, s)
		}
		return next
	},
	Equal: func(a, b any) bool { return a == b },
	DescribeOperation: func(input, _ any) string {
		return fmt.Sprintf("%+v", input)
	},
	DescribeState: func(s any) string { return fmt.Sprintf("%+v", s) },
}).ToModel()

// after gives what a session can hold after a step; nothing when the step cannot
// be.
func (p step) after(now state) []state {
	same := p.generation == now.generation
	owed := now.owed && !p.told
	switch p.kind {
	case stepLost:
		// A reader who was sent to where the session was before may be told of that
		// loss, though it has been rebuilt elsewhere.
		after := []state{{owed: true, lost: true}}
		if now.lost {
			after = append(after, now)
		}
		return after
	case stepTold:
		now.owed = false
		return []state{now, {lost: true}}
	case stepRead:
		switch {
		case same && p.list == now.list:
			now.owed = owed
			return []state{now}
		case p.generation == "":
			return []state{{owed: !p.told, lost: true}} // and built anew by nobody yet
		}
		return nil
	}
	grown := now.list + "," + p.token
	switch {
	case same && (p.unseen || p.list == grown):
		return []state{{p.generation, grown, owed, now.lost}}
	case !same && (p.unseen || p.list == ","+p.token):
		lost := now.generation != "" || now.owed
		return []state{{p.generation, "," + p.token, lost && !p.told, lost || now.lost}}
	}
	return nil
}

func joined(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return "," + strings.Join(list, ",")
}

// operations turns the calls of one session into steps. A call of which the client
// was told nothing sure counts where its token was seen later, for as long as until
// then.
func operations(calls []Call) []porcupine.Operation {
	type place struct{ token, generation string }
	seen := map[place]int64{} // the first return of a call that saw it
	for _, c := range calls {
		for _, t := range c.List {
			at := place{t, c.Generation}
			if first, ok := seen[at]; c.Outcome == Answered && (!ok || c.Returned < first) {
				seen[at] = c.Returned
			}
		}
	}
	var all []porcupine.Operation
	add := func(c Call, until int64, s step) {
		all = append(all, porcupine.Operation{ClientId: c.Client, Call: c.Invoked, Return: max(until, c.Invoked), Input: s})
	}
	for _, c := range calls {
		switch {
		case c.Outcome == Lost:
			add(c, c.Returned, step{kind: stepLost})
		case c.Read && c.Outcome == Answered:
			add(c, c.Returned, step{kind: stepRead, generation: c.Generation, list: joined(c.List), told: c.Told})
		case c.Outcome == Answered:
			add(c, c.Returned, step{kind: stepAppend, generation: c.Generation, list: joined(c.List), token: c.Token, told: c.Told})
		case c.Outcome == Unknown && c.Told:
			add(c, c.Returned, step{kind: stepTold})
		}
		for at, until := range seen {
			if at.token == c.Token && !c.Read && (c.Outcome != Answered || at.generation != c.Generation) {
				add(c, until, step{kind: stepAppend, generation: at.generation, token: c.Token, unseen: true})
			}
		}
	}
	// A client may have several steps at once: its calls that are not over yet.
	slices.SortStableFunc(all, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	for i := range all {
		all[i].ClientId = i
	}
	return all
}
