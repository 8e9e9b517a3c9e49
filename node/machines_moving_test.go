package node_test

import (
	"sync"
	"testing"

	"github.com/locusrun/locus/node/gateway"
)

// hubOf returns the node that holds the connection of the machine, and the others.
func hubOf(t testing.TB, all []*world) (hub *world, others []*world) {
	t.Helper()
	id := all[0].connected(t, gateway.MachineConnected).Node
	for _, w := range all {
		if w.id() == id {
			hub = w
		} else {
			others = append(others, w)
		}
	}
	return hub, others
}

// The node that holds a machine's connection ends while calls come in at the others. None is
// refused: the machine connects to another node, and they wait until it has. They were refused
// until the registry had it there.
func TestCallsOnAMeshGoOnWhileTheNodeOfTheirMachineEnds(t *testing.T) {
	all := mesh(t, 3)
	l := all[0].link(t, t.TempDir(), all[0].joinToken(t, "link", ""), newScript())
	hub, others := hubOf(t, all)
	for _, w := range others {
		w.connected(t, gateway.MachineConnected)
	}
	stopped := make(chan struct{})
	var callers sync.WaitGroup
	for _, w := range others {
		callers.Go(func() {
			for last := false; !last; {
				select {
				case <-stopped:
					last = true
				default:
				}
				if res := w.there("say hello"); res.Stdout != "hello\n" {
					t.Errorf("got %s, want Stdout \"hello\\n\"", show(res))
				}
			}
		})
	}
	eventually(t, "calls run", func() bool { return l.runner.started("say hello") > 10 })
	hub.stop()
	close(stopped)
	callers.Wait()
}

// A node that is drained sends its machines to the other nodes. When all nodes are drained, each
// keeps those that it has.
func TestADrainedNodeOfAMeshSendsItsMachinesToOthers(t *testing.T) {
	all := mesh(t, 2)
	all[0].link(t, t.TempDir(), all[0].joinToken(t, "link", ""), newScript())
	hub, others := hubOf(t, all)
	other := others[0]
	drain := func(w *world, on bool) {
		t.Helper()
		var n gateway.NodeInfo
		if other.post("/v1/nodes/"+w.id()+"/drain", args{"draining": on}, &n); n.Draining != on {
			t.Fatalf("got %+v, want Draining %v", n, on)
		}
	}
	at := func(w *world) func() bool {
		return func() bool {
			m := other.machines(t)
			return len(m) == 1 && m[0].State == gateway.MachineConnected && m[0].Node == w.id()
		}
	}
	drain(hub, true)
	eventually(t, "the machine is at the other node", at(other))
	ok(t, hub.there("say hello"))
	drain(other, true)
	ok(t, hub.there("say hello"))
	drain(hub, false)
	eventually(t, "the machine is at the node that is no longer drained", at(hub))
	ok(t, other.there("say hello"))
}
