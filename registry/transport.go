package registry

import (
	"sync"

	"github.com/hashicorp/raft"
)

// transport is raft's transport over a StreamLayer. raft handles heartbeats on the
// transport's goroutines, for which neither raft's Shutdown nor the transport's Close waits;
// a heartbeat can write the term, and raft panics if the log is closed by then. So this Close
// waits for them.
type transport struct {
	*raft.NetworkTransport

	mu         sync.Mutex
	closed     bool
	heartbeats sync.WaitGroup // in the handler; none begins once closed is set
}

// SetHeartbeatHandler sets what is called for each heartbeat until Close. A heartbeat that
// comes later gets no answer: the transport ends its stream.
func (t *transport) SetHeartbeatHandler(handle func(raft.RPC)) {
	t.NetworkTransport.SetHeartbeatHandler(func(rpc raft.RPC) {
		if t.begin() {
			defer t.heartbeats.Done()
			handle(rpc)
		}
	})
}

func (t *transport) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.heartbeats.Add(1)
	}
	return !t.closed
}

// Close ends all streams and waits for heartbeats that are being handled. It is idempotent.
func (t *transport) Close() error {
	err := t.NetworkTransport.Close()
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.heartbeats.Wait()
	return err
}
