package registry

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// contacts records which of raft's messages the members have answered, as the leader of a
// term. An answer proves that when it was given, after the message was sent, the member had
// seen no later term.
//
// Messages are ordered by a count, not by a clock.
type contacts struct {
	mu      sync.Mutex
	count   uint64
	members map[raft.ServerID]contact
	changed chan struct{} // closed at the next answer
}

type contact struct {
	heartbeat time.Time // when the last heartbeat was sent
	// term and answered are of the latest message that was answered: its term, and the
	// count when it was sent.
	term, answered uint64
}

func newContacts() contacts {
	return contacts{members: map[raft.ServerID]contact{}, changed: make(chan struct{})}
}

// lastHeartbeat returns when the last heartbeat to a member was sent.
func (c *contacts) lastHeartbeat(to raft.ServerID) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[to].heartbeat
}

// sendHeartbeat records that a heartbeat is about to be sent.
func (c *contacts) sendHeartbeat(to raft.ServerID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[to]
	m.heartbeat = time.Now()
	c.members[to] = m
}

// now returns a count that is lower than that of every later message.
func (c *contacts) now() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// send counts a message that is about to be sent.
func (c *contacts) send() (count uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	return c.count
}

// answered records the answer to a message.
func (c *contacts) answered(from raft.ServerID, term, count uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[from]
	if term < m.term || term == m.term && count <= m.answered {
		return
	}
	m.term, m.answered = term, count
	c.members[from] = m
	close(c.changed)
	c.changed = make(chan struct{})
}

// since counts the given members that have answered a message of a term that was sent after
// now returned count. The channel is closed when that number may have changed.
func (c *contacts) since(count, term uint64, of []raft.ServerID) (answered int, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range of {
		if m := c.members[id]; m.term == term && m.answered > count {
			answered++
		}
	}
	return answered, c.changed
}
