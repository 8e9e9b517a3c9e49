package registry

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// transport is raft's transport over a StreamLayer.
//
// It sends heartbeats to all members at the same moments. raft sends them to each member at
// times of its own, about seven in a heartbeat timeout, and each wakes both nodes.
type transport struct {
	*raft.NetworkTransport
	pace     heartbeatPace
	contacts contacts
	closing  sync.Once
	stop     chan struct{} // closed by Close
}

func newTransport(over *raft.NetworkTransport, heartbeat time.Duration) *transport {
	return &transport{
		NetworkTransport: over, pace: heartbeatPace{timeout: heartbeat, began: time.Now()},
		contacts: newContacts(), stop: make(chan struct{}),
	}
}

// AppendEntries sends a message of raft and waits for the answer. A heartbeat waits before,
// for its turn.
func (t *transport) AppendEntries(id raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, answer *raft.AppendEntriesResponse) error {
	if isHeartbeat(args) {
		turn := time.NewTimer(t.pace.wait(time.Now(), t.contacts.lastHeartbeat(id)))
		defer turn.Stop()
		select {
		case <-turn.C:
		case <-t.stop:
			return raft.ErrTransportShutdown
		}
		t.contacts.sendHeartbeat(id)
	}
	sent := t.contacts.send()
	err := t.NetworkTransport.AppendEntries(id, to, args, answer)
	if err == nil && answer.Success && answer.Term == args.Term {
		t.contacts.answered(id, args.Term, sent)
	}
	return err
}

// isHeartbeat tells a heartbeat from other messages as raft's own transport does.
func isHeartbeat(args *raft.AppendEntriesRequest) bool {
	return args.PrevLogEntry == 0 && args.PrevLogTerm == 0 && len(args.Entries) == 0 && args.LeaderCommitIndex == 0
}

// heartbeatPace says when heartbeats are sent: at common moments, three tenths of the
// heartbeat timeout apart. raft asks for the next heartbeat a tenth to a fifth of the timeout
// after the last answer.
type heartbeatPace struct {
	timeout time.Duration
	began   time.Time
}

// wait is how long a heartbeat waits for its turn. It ends less than two fifths of the timeout
// after the last heartbeat to the same member was sent, or is zero. So a member hears from
// the leader every two fifths of the timeout, or every fifth of it plus a round trip.
func (p heartbeatPace) wait(now, last time.Time) time.Duration {
	every := p.timeout * 3 / 10
	turn := every - now.Sub(p.began)%every
	if now.Add(turn).Sub(last) > p.timeout*2/5 {
		return 0
	}
	return turn
}

// Close ends all streams and heartbeats that wait for their turn. It is idempotent.
func (t *transport) Close() error {
	t.closing.Do(func() { close(t.stop) })
	return t.NetworkTransport.Close()
}
