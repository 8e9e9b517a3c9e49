package registry

import (
	"context"
	"errors"

	"github.com/hashicorp/raft"
)

var errUnconfirmed = errors.New("registry: no majority of the voters confirms the lead in time")

// attest gives nil when a majority of the voters have said, after it was called, that
// no later term than this one has begun for them. Whoever leads next needs the vote of
// one of them, so it is elected after that. raft's own VerifyLeader is not enough: it
// also counts answers that were under way before, however long they took, such as
// those that a paused leader finds when it wakes.
//
// The caller sees to it that this node leads in the term.
func (r *Registry) attest(term uint64) error {
	if r.config.Forward == nil {
		return r.raft.VerifyLeader().Error()
	}
	var others []NodeID
	voters := 0
	for _, s := range r.servers() {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		if id := NodeID(s.ID); id != r.dir.owner {
			others = append(others, id)
		}
	}
	needed := voters/2 + 1 - (voters - len(others))
	spare := len(others) - needed
	// Who was asked the last time and has not answered yet is waited for no more.
	r.confirmer.rest()
	ctx, cancel := context.WithTimeout(context.Background(), r.config.Heartbeat)
	r.confirmer.rest = cancel
	answers := make(chan bool, len(others))
	for _, id := range others {
		if err := r.hold(); err != nil {
			return err
		}
		go func() {
			defer r.release()
			p, err := r.askProbe(ctx, id)
			if err == nil {
				r.health.heard(id, p.Applied)
			}
			answers <- err == nil && p.Term != 0 && p.Term <= term
		}()
	}
	for needed > 0 {
		if <-answers {
			needed--
		} else if spare--; spare < 0 {
			return errUnconfirmed
		}
	}
	return nil
}
