package node_test

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/locusrun/locus/agentlink"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// nat is a UDP proxy between a machine and a node that can change the machine's address, or
// cut it off.
type nat struct {
	t       testing.TB
	inside  *net.UDPConn
	node    *net.UDPAddr
	machine atomic.Pointer[net.UDPAddr]
	work    sync.WaitGroup
	cut     atomic.Bool

	mu      sync.Mutex
	outside *net.UDPConn
	all     []*net.UDPConn
	carried atomic.Int64 // packets to the node since the last new address
}

func newNAT(t testing.TB, node string) *nat {
	t.Helper()
	to, err := net.ResolveUDPAddr("udp4", node)
	if err != nil {
		t.Fatal(err)
	}
	n := &nat{t: t, node: to, inside: loopbackUDP(t)}
	n.rebind()
	n.work.Go(func() {
		b := make([]byte, 1<<16)
		for {
			size, from, err := n.inside.ReadFromUDP(b)
			if err != nil {
				return // closed
			}
			n.machine.Store(from)
			n.mu.Lock()
			out := n.outside
			n.mu.Unlock()
			if !n.cut.Load() {
				n.carried.Add(1)
				_, _ = out.WriteToUDP(b[:size], n.node) // what cannot be sent is lost, as packets are
			}
		}
	})
	t.Cleanup(func() {
		n.mu.Lock()
		for _, c := range append(n.all, n.inside) {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		n.mu.Unlock()
		n.work.Wait()
	})
	return n
}

func loopbackUDP(t testing.TB) *net.UDPConn {
	t.Helper()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// rebind changes the machine's address. Packets to the old one are lost.
func (n *nat) rebind() {
	out := loopbackUDP(n.t)
	n.mu.Lock()
	n.outside = out
	n.all = append(n.all, out)
	n.mu.Unlock()
	n.carried.Store(0)
	n.work.Go(func() {
		b := make([]byte, 1<<16)
		for {
			size, _, err := out.ReadFromUDP(b)
			if err != nil {
				return // closed
			}
			n.mu.Lock()
			current := n.outside == out
			n.mu.Unlock()
			if to := n.machine.Load(); current && to != nil && !n.cut.Load() {
				_, _ = n.inside.WriteToUDP(b[:size], to)
			}
		}
	})
}

// A machine delivers a call's result although its address changes during the call, and also if
// its network is away for longer than a connection lives.
func TestAMachineChangesItsAddressDuringACall(t *testing.T) {
	w := start(t, t.TempDir())
	door := newNAT(t, w.status().Listen)
	runner := newScript()
	w.link(t, t.TempDir(), w.joinToken(t, "link", ""), runner, func(c *agentlink.Config) { c.Join = door.inside.LocalAddr().String() })
	w.connected(t, gateway.MachineConnected)

	running := make(chan surfaces.Result, 1)
	go func() { running <- w.there("hold", args{"timeout_s": 100}) }()
	eventually(t, "the program runs", func() bool { return runner.started("hold") == 1 })
	door.rebind()
	eventually(t, "the machine is heard from its new address", func() bool { return door.carried.Load() > 3 })
	ok(t, w.there("say hello"))

	door.cut.Store(true)
	w.connected(t, gateway.MachineAway)
	code(t, w.there("say hello", args{"timeout_s": 3600}), surfaces.CodeMachineUnreachable) // at once, not at its deadline in an hour
	close(runner.hold)                                                                      // the program ends while its result cannot be sent
	door.cut.Store(false)
	res := ok(t, <-running)
	if res.Stdout != "before\nafter\n" || runner.started("hold") != 1 {
		t.Fatalf("got %s and %d runs, want the whole output and one run", show(res), runner.started("hold"))
	}
}
