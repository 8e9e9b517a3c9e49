package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

// Member is a node that follows the log.
type Member struct {
	ID NodeID `json:"id"`
	// Voter members vote and count for the quorum; the others only follow the log.
	Voter  bool `json:"voter"`
	Leader bool `json:"leader"`
	// LastContact is when the leader last heard from it. The leader knows this of all
	// members, any other node only of the leader. Zero is unknown.
	LastContact time.Time `json:"last_contact,omitzero"`
}

// Members lists the nodes that follow the log, as this node knows them, sorted by id.
func (r *Registry) Members() []Member {
	leader := r.Leader()
	var members []Member
	for _, s := range r.servers() {
		m := Member{ID: NodeID(s.ID), Voter: s.Suffrage == raft.Voter, Leader: NodeID(s.ID) == leader}
		switch {
		case m.ID == r.dir.owner:
			m.LastContact = time.Now()
		case r.lead.is():
			m.LastContact = r.health.lastHeard(m.ID)
		case m.Leader:
			m.LastContact = r.raft.LastContact()
		}
		members = append(members, m)
	}
	slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	return members
}

func (r *Registry) servers() []raft.Server {
	return r.raft.GetConfiguration().Configuration().Servers
}

// memberChange is the body of an opMember.
type memberChange struct {
	ID NodeID `json:"id"`
	// Remove removes the member instead of adding it.
	Remove bool `json:"remove,omitempty"`
}

// AddMember adds a node as a non-voter; the leader decides whether and when it becomes a
// voter. It is idempotent, and works on every node that is a member itself.
func (r *Registry) AddMember(ctx context.Context, id NodeID) error {
	return r.changeMember(ctx, memberChange{ID: id})
}

// RemoveMember removes a node from the members; the leader then makes another one a voter
// in its place if it can. It is idempotent. The last voter cannot be removed: ErrLastVoter.
// A leader that removes itself hands the leadership over first.
func (r *Registry) RemoveMember(ctx context.Context, id NodeID) error {
	if id == r.dir.owner && r.lead.is() && r.voters() > 1 {
		if err := r.TransferLeadership(ctx); err != nil {
			return err
		}
	}
	return r.changeMember(ctx, memberChange{ID: id, Remove: true})
}

func (r *Registry) changeMember(ctx context.Context, c memberChange) error {
	if !isToken(string(c.ID), maxText) {
		return fmt.Errorf("%w: a node id of %d bytes", ErrMalformed, len(c.ID))
	}
	body, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	_, err = r.ask(ctx, opMember, body)
	if cause := (maybeApplied{}); errors.As(err, &cause) {
		return &UnknownOutcomeError{Cause: cause.error}
	}
	return err
}

func (r *Registry) voters() int {
	n := 0
	for _, s := range r.servers() {
		if s.Suffrage == raft.Voter {
			n++
		}
	}
	return n
}

// performMember changes the membership, on the leader.
func (r *Registry) performMember(ctx context.Context, body []byte) answer {
	var c memberChange
	if err := json.Unmarshal(body, &c); err != nil || !isToken(string(c.ID), maxText) {
		return refuse(refusedMalformed)
	}
	if err := r.acquire(ctx); err != nil {
		return retryLater(err)
	}
	defer r.releaseSlot()
	at := slices.IndexFunc(r.servers(), func(s raft.Server) bool { return NodeID(s.ID) == c.ID })
	id := raft.ServerID(c.ID)
	var change raft.IndexFuture
	switch {
	case (at >= 0) != c.Remove:
		return answer{status: statusDone} // nothing to change
	case !c.Remove:
		change = r.raft.AddNonvoter(id, raft.ServerAddress(c.ID), 0, enqueueWait(ctx))
	case r.voters() == 1 && r.servers()[at].Suffrage == raft.Voter:
		return refuse(refusedLastVoter)
	case c.ID == r.dir.owner:
		// The next leader has to do it: this one would step down in the middle.
		if err := r.transferLead(ctx); err != nil {
			return retryLater(err)
		}
		return notLeader(r.otherLeader())
	default:
		change = r.raft.RemoveServer(id, 0, enqueueWait(ctx))
	}
	if err := change.Error(); err != nil {
		return r.failed(err)
	}
	r.log.Info("the membership changed", "node", c.ID, "removed", c.Remove)
	return answer{status: statusDone}
}

// AwaitLeader waits until this node knows a leader, and returns its id.
func (r *Registry) AwaitLeader(ctx context.Context) (NodeID, error) {
	var leader NodeID
	err := r.lead.await(ctx, func() bool {
		leader = r.Leader()
		return leader != "" && (leader != r.dir.owner || r.lead.is())
	})
	return leader, err
}

// transferTries bounds the rounds in which a leader tries to hand over, and the successors
// that it tries per round.
const transferTries = 3

// TransferLeadership hands the leadership to another voter, so that the mesh does not have to wait
// for an election timeout. It does nothing if this node is not the leader or is the only
// voter.
func (r *Registry) TransferLeadership(ctx context.Context) error {
	if err := r.acquire(ctx); err != nil {
		return err
	}
	defer r.releaseSlot()
	return r.transferLead(ctx)
}

func (r *Registry) transferLead(ctx context.Context) error {
	var last error
	for range transferTries {
		to := r.successors()
		if r.raft.State() != raft.Leader || len(to) == 0 {
			return nil
		}
		for _, id := range to[:min(len(to), transferTries)] {
			// raft would wait forever for a successor that does not answer, in a goroutine
			// that outlives raft.
			if r.probe(ctx, id, r.config.Heartbeat, r.config.Heartbeat); time.Since(r.health.lastHeard(id)) > r.config.Heartbeat {
				last = fmt.Errorf("node %s does not answer", id)
				continue
			}
			if ctx.Err() != nil {
				return fmt.Errorf("registry: hand over the leadership: %w", context.Cause(ctx))
			}
			if last = r.transferTo(id); last == nil {
				return nil
			}
		}
	}
	return fmt.Errorf("registry: hand over the leadership: %w", last)
}

// transferTo hands the leadership to a voter. raft answers after an election timeout at the
// latest, so this does not end with a context: a raft that is shut down before it has taken
// the request up never answers.
func (r *Registry) transferTo(id NodeID) error {
	handed := make(chan error, 1)
	go func() {
		handed <- r.raft.LeadershipTransferToServer(raft.ServerID(id), raft.ServerAddress(id)).Error()
	}()
	late := time.NewTimer(2 * r.config.Heartbeat)
	defer late.Stop()
	select {
	case err := <-handed:
		return err
	case <-late.C:
		return errors.New("raft does not answer")
	}
}

// successors lists the other voters, the one heard from most recently first.
func (r *Registry) successors() []NodeID {
	var ids []NodeID
	for _, s := range r.servers() {
		if s.Suffrage == raft.Voter && NodeID(s.ID) != r.dir.owner {
			ids = append(ids, NodeID(s.ID))
		}
	}
	slices.SortFunc(ids, func(a, b NodeID) int { return r.health.lastHeard(b).Compare(r.health.lastHeard(a)) })
	return ids
}
