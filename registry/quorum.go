package registry

import (
	"context"
	"errors"

	"github.com/hashicorp/raft"
)

var errUnconfirmed = errors.New("registry: no majority of the voters confirmed the leadership in time")

// confirmQuorum returns nil if a majority of the voters answer, to a question that was sent
// after the call, that they have seen no later term. The next leader needs the vote of one
// of them, so it is elected after that answer. raft's VerifyLeader is not enough: it also
// counts answers to messages that were sent before the call, such as those that a paused
// leader finds waiting when it resumes.
//
// The caller must check that this node is the leader of the term.
func (r *Registry) confirmQuorum(term uint64) error {
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
	// Cancel the questions of the last confirmation that were not answered.
	r.confirmer.rest()
	ctx, cancel := context.WithTimeout(context.Background(), r.config.Heartbeat)
	r.confirmer.rest = cancel
	answers := make(chan bool, len(others))
	for _, id := range others {
		if err := r.retain(); err != nil {
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
