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
	others, needed := r.quorum()
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
			p, err := r.askProbe(ctx, NodeID(id))
			if err == nil {
				r.health.heard(NodeID(id), p.Applied)
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

// awaitQuorum returns nil as soon as a majority of the voters have confirmed the same by
// their answers to raft's messages, such as heartbeats, that were sent after the call. It
// sends nothing itself. Without them it waits until ctx ends.
func (r *Registry) awaitQuorum(ctx context.Context, term uint64) error {
	over, ok := r.transport.(*transport)
	if !ok {
		return r.confirmQuorum(term)
	}
	for begun := over.contacts.now(); ; {
		others, needed := r.quorum()
		answered, changed := over.contacts.since(begun, term, others)
		if answered >= needed {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errUnconfirmed
		}
	}
}

// quorum returns the voters other than this node, and how many of them are a majority of all
// voters together with this node, if it is one.
func (r *Registry) quorum() (others []raft.ServerID, needed int) {
	voters := 0
	for _, s := range r.servers() {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		if NodeID(s.ID) != r.dir.owner {
			others = append(others, s.ID)
		}
	}
	return others, voters/2 + 1 - (voters - len(others))
}
