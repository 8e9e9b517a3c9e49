package registry

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// raft handles heartbeats on goroutines that its Shutdown does not wait for. One that wrote
// its term after the log was closed ended the whole process.
func TestCloseWaitsForAHeartbeat(t *testing.T) {
	m := newMesh(t, func(c *Config) { c.Heartbeat = 10 * time.Second }) // no election in between
	r := m.up("n1")
	sender := Config{NodeID: "n2", Layer: m.net.layer("n2"), Heartbeat: time.Second, Log: r.log}.transport()
	defer closeTransport(sender)

	release := r.dir.store.mu.Unlock
	r.dir.store.mu.Lock() // the heartbeat waits here, with a term to write
	go func() {
		heartbeat := raft.AppendEntriesRequest{
			RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("n2"), Addr: []byte("n2")},
			Term:      100, Leader: []byte("n2"),
		}
		// It fails: the registry is closed before the answer.
		_ = sender.AppendEntries("n1", "n1", &heartbeat, &raft.AppendEntriesResponse{})
	}()
	m.until("the heartbeat's term ends the leader's", func() bool { return r.raft.State() == raft.Follower })

	closed := make(chan error, 1)
	go func() { closed <- r.Close() }()
	select {
	case <-closed:
		t.Error("the registry closed its log under a heartbeat")
		release()
	case <-time.After(drainTimeout + time.Second):
		release()
		if err := <-closed; err != nil {
			t.Error(err)
		}
	}
	m.nodes = nil
}
