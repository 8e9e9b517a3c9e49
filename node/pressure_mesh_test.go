package node_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/locusrun/locus/node"
	"github.com/locusrun/locus/node/sandbox"
)

// A node that is short of memory is not chosen for new sessions, wherever the call comes in,
// and keeps those that it has.
func TestANodeWithoutMemoryIsPassedOver(t *testing.T) {
	var short atomic.Bool
	first := true
	all := mesh(t, 2, func(c *node.Config) {
		if first {
			c.Memory = func() (sandbox.Memory, error) {
				m := sandbox.Memory{Total: 16 << 30, Available: 8 << 30}
				if short.Load() {
					m.Available = 1 << 20
				}
				return m, nil
			}
		}
		first = false
	})
	full, other := all[0], all[1]
	kept := 0
	for i := range 4 {
		if ok(t, full.keep(fmt.Sprint("before", i), "x = 1")).Node == full.id() {
			kept++
		}
	}
	if kept == 0 {
		t.Fatal("it got no session while it had memory")
	}
	short.Store(true)
	eventually(t, "both know that it is short of memory", func() bool {
		return full.status().MemoryPressure == "critical" && passedOver(t, full, other)
	})
	for i := range 6 {
		w := all[i%2]
		if res := ok(t, w.keep(fmt.Sprint("after", i), "1")); res.Node != other.id() {
			t.Errorf("a session was begun on %s", res.Node)
		}
	}
	for i := range 4 {
		value(t, full.keep(fmt.Sprint("before", i), "x"), "1")
	}
}

// passedOver reports whether sessions that are created at either node are placed on the
// second.
func passedOver(t *testing.T, full, other *world) bool {
	t.Helper()
	at := true
	for _, w := range []*world{full, other} {
		res := w.keep("trial", "1")
		at = at && res.Code == nil && res.Node == other.id()
		w.post("/v1/tools/close_session", args{"session_name": "trial"}, &args{})
	}
	return at
}
