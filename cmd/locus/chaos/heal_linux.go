package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// heal checks that everything works once all faults are mended: at every node the clients'
// sessions, a new session and stateless code, and that all nodes agree on the owners.
func (r *run) heal(ctx context.Context) {
	random := rand.New(rand.NewPCG(r.o.Seed, 3))
	for _, m := range r.world.members {
		for slot := range slots {
			session := r.clients.session(slot)
			r.works(ctx, m, "a call in session "+session, func(n int) (Call, string) {
				return finalCall(random, fmt.Sprintf("heal.%d.%d.%d", m.number, slot, n), session, r.clients.marks, programAppend)
			})
			r.works(ctx, m, "a reader of session "+session, func(n int) (Call, string) {
				return finalCall(random, fmt.Sprintf("heal.%d.%d.r%d", m.number, slot, n), session, r.clients.marks, programRead)
			})
		}
		r.works(ctx, m, "a new session", func(n int) (Call, string) {
			return finalCall(random, fmt.Sprintf("heal.%d.new%d", m.number, n), fmt.Sprintf("new-%d", m.number), r.clients.marks, programAppend)
		})
		r.works(ctx, m, "code without a session", func(n int) (Call, string) {
			return finalCall(random, fmt.Sprintf("heal.%d.once%d", m.number, n), nowhere, r.clients.marks, programAppend)
		})
	}
	for _, m := range r.world.members[1:] {
		r.tell(ctx, m, "the same owners as at node 1", func(ctx context.Context) error { return r.agree(ctx, m) })
	}
}

// finalCall is a call of one kind with a generous deadline.
func finalCall(random *rand.Rand, token, session, marks, program string) (c Call, code string) {
	for {
		c, code = draw(random, token, session, marks)
		stateless := *c.Arguments.StateMode == "stateless"
		if c.Program == program && stateless == (session == nowhere) {
			c.Arguments.TimeoutS = to(15.0)
			return c, code
		}
	}
}

// works makes calls to a node until one succeeds. They are checked like all others.
func (r *run) works(ctx context.Context, m *member, what string, next func(n int) (Call, string)) {
	n := 0
	r.tell(ctx, m, what, func(ctx context.Context) error {
		n++
		call, code := next(n)
		if !r.clients.make(ctx, m, &call, code) {
			return errors.New("the node is down")
		}
		r.journal.add(Line{Call: &call})
		switch {
		case call.Problem != nil:
			return errors.New(call.Problem.Text)
		case call.Answer.Code != nil:
			return fmt.Errorf("%s: %s", *call.Answer.Code, *call.Answer.Error)
		}
		return nil
	})
}

// tell retries until success or a time-out, and records the result.
func (r *run) tell(ctx context.Context, m *member, what string, try func(context.Context) error) {
	h := Healed{Node: m.number, What: what, Began: r.clock.now()}
	ctx, cancel := context.WithTimeout(ctx, healsWithin)
	defer cancel()
	err := try(ctx)
	for err != nil && pause(ctx, looksEvery) == nil {
		if next := try(ctx); next == nil || ctx.Err() == nil {
			err = next // an error of the time-out says nothing about the mesh
		}
	}
	h.Ended = r.clock.now()
	if err != nil {
		h.Problem = fmt.Sprintf("not within %s: %v", time.Duration(h.Ended-h.Began).Round(time.Second), err)
	}
	r.journal.add(Line{Healed: &h})
}

// agree is an error if a node and the first one name different owners.
func (r *run) agree(ctx context.Context, m *member) error {
	var lists [2][]string
	for i, asked := range []*member{r.world.members[0], m} {
		door := asked.client()
		if door == nil {
			return fmt.Errorf("node %d is down", asked.number)
		}
		list, err := door.ListSessions(ctx)
		if err != nil {
			return err
		}
		for _, s := range list.Sessions {
			if s.SessionName != nil {
				lists[i] = append(lists[i], fmt.Sprintf("%s on %s at epoch %d", *s.SessionName, s.Node, s.Epoch))
			}
		}
		slices.Sort(lists[i])
	}
	if !slices.Equal(lists[0], lists[1]) {
		return fmt.Errorf("node 1 has %q and node %d has %q", lists[0], m.number, lists[1])
	}
	return nil
}
