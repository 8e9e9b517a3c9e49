package registry

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/hashicorp/raft"
)

// raft tells its followers what is committed with the next entry, or when none has
// come for some time: its CommitTimeout. Whoever waits on a follower to see what it
// has changed would wait that long, and a mesh at rest would be woken that often. So
// the leader tells them itself, as soon as it knows, and raft's way is only for what
// was missed.

// tellAll tells every other member what is committed, as long as it is one, until ctx ends.
func (r *Registry) tellAll(ctx context.Context, term uint64) {
	var all sync.WaitGroup
	defer all.Wait()
	told := map[raft.ServerID]context.CancelFunc{}
	for {
		v := r.View()
		members := r.servers()
		for _, s := range members {
			if told[s.ID] == nil && NodeID(s.ID) != r.dir.owner {
				member, stop := context.WithCancel(ctx)
				told[s.ID] = stop
				all.Go(func() { r.tell(member, term, s) })
			}
		}
		maps.DeleteFunc(told, func(id raft.ServerID, stop context.CancelFunc) bool {
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

// tell tells one member, the latest that there is each time.
func (r *Registry) tell(ctx context.Context, term uint64, to raft.Server) {
	told := uint64(0)
	for {
		v := r.View()
		// What is in the log behind it goes out now, and is told of when it is committed.
		if index := r.raft.CommitIndex(); index > told && r.raft.LastIndex() == index {
			ended := make(chan struct{})
			r.telling.Go(func() {
				defer close(ended)
				r.tellOnce(term, to, index)
			})
			select {
			case <-ended:
			case <-ctx.Done():
				return // raft's transport gives up by itself
			}
			told = index
		}
		select {
		case <-v.Changed():
		case <-ctx.Done():
			return
		}
	}
}

// tellOnce says in raft's own words, as the leader of a term, that an entry of the log is
// committed. A member that does not have the entry itself takes no note.
func (r *Registry) tellOnce(term uint64, to raft.Server, index uint64) {
	var entry raft.Log
	if err := r.dir.store.GetLog(index, &entry); err != nil {
		return // it is in a snapshot by now, so it is no news
	}
	self := r.transport.EncodePeer(raft.ServerID(r.dir.owner), r.transport.LocalAddr())
	request := raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(r.dir.owner), Addr: self},
		Leader:    self, Term: term, PrevLogEntry: index, PrevLogTerm: entry.Term, LeaderCommitIndex: index,
	}
	var response raft.AppendEntriesResponse
	if err := r.transport.AppendEntries(to.ID, to.Address, &request, &response); err != nil {
		r.log.Debug("a member was not told what is committed", "node", to.ID, "error", err)
	}
}
