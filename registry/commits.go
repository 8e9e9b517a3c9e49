package registry

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// raft sends the commit index to its followers with the next entry, or after CommitTimeout
// if there is none. A caller that waits on a follower for its own change would wait that
// long, and a short timeout would wake an idle mesh that often. So the leader sends each new
// commit index at once, and CommitTimeout, which is long, only repairs what was missed.

// broadcastCommits sends the commit index to every other member, for as long as it is one,
// until ctx ends.
func (r *Registry) broadcastCommits(ctx context.Context, term uint64) {
	var all sync.WaitGroup
	defer all.Wait()
	senders := map[raft.ServerID]context.CancelFunc{}
	for {
		v := r.View()
		members := r.servers()
		for _, s := range members {
			if senders[s.ID] == nil && NodeID(s.ID) != r.dir.owner {
				member, stop := context.WithCancel(ctx)
				senders[s.ID] = stop
				all.Go(func() { r.sendCommits(member, term, s) })
			}
		}
		maps.DeleteFunc(senders, func(id raft.ServerID, stop context.CancelFunc) bool {
			if slices.ContainsFunc(members, func(s raft.Server) bool { return s.ID == id }) {
				return false
			}
			stop()
			return true
		})
		select {
		case <-v.Changed():
		case <-ctx.Done():
			return
		}
	}
}

// A member that does not have the latest entry yet cannot take its commit index: most voters
// have it, and raft is sending it to this one. It is asked again after firstRetry, and then
// after pauses twice as long, up to the one after which raft itself sends the index.
const firstRetry = 2 * time.Millisecond

// sendCommits sends the latest commit index to one member whenever there is a new one.
func (r *Registry) sendCommits(ctx context.Context, term uint64, to raft.Server) {
	sent, pause := uint64(0), firstRetry
	for {
		v := r.View()
		var again <-chan time.Time
		// If the log is longer, raft is replicating the rest now and sends this commit index
		// along with it.
		if index := r.raft.CommitIndex(); index > sent && r.raft.LastIndex() == index {
			taken := make(chan bool, 1)
			r.commitSenders.Go(func() { taken <- r.sendCommitIndex(term, to, index) })
			select {
			case ok := <-taken:
				if ok {
					sent, pause = index, firstRetry
				} else {
					again = time.After(pause)
					pause = min(2*pause, r.config.Heartbeat/2)
				}
			case <-ctx.Done():
				return // raft's transport gives up by itself
			}
		}
		select {
		case <-v.Changed():
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

// sendCommitIndex sends raft's own AppendEntries message without entries, as the leader of a
// term. It returns false if the member does not have the entry at index yet.
func (r *Registry) sendCommitIndex(term uint64, to raft.Server, index uint64) bool {
	var entry raft.Log
	if err := r.dir.store.GetLog(index, &entry); err != nil {
		return true // compacted into a snapshot meanwhile, so the index is old
	}
	self := r.transport.EncodePeer(raft.ServerID(r.dir.owner), r.transport.LocalAddr())
	request := raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(r.dir.owner), Addr: self},
		Leader:    self, Term: term, PrevLogEntry: index, PrevLogTerm: entry.Term, LeaderCommitIndex: index,
	}
	var response raft.AppendEntriesResponse
	if err := r.transport.AppendEntries(to.ID, to.Address, &request, &response); err != nil {
		r.log.Debug("the commit index could not be sent to a member", "node", to.ID, "error", err)
		return true // raft sends it when it reaches the member again
	}
	return response.Success || response.Term > term
}
