package registry

import (
	"io"
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

// A handler that waits for the next message when the streams are closed sees their end, of
// which raft does not warn.
func TestClosedStreamsAreAtTheirEnd(t *testing.T) {
	network := newNetwork()
	s, far := newStreams(network.layer("n1"), "n1"), network.layer("n2")
	defer far.Close()
	other, err := far.Dial("n1", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	in, err := s.Accept()
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() {
		defer in.Close()
		_, err := in.Read(make([]byte, 1))
		read <- err
	}()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-read; err != io.EOF {
		t.Errorf("got %v, want the end", err)
	}
}
