package agentlink

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/surfaces"
)

// relay is a UDP proxy between one machine and a node. While it is cut it drops all packets.
type relay struct {
	machines, node *net.UDPConn
	machine        atomic.Pointer[netip.AddrPort]
	cut            atomic.Bool
}

// newRelay starts a relay in front of a node. It ends with the test.
func newRelay(t testing.TB, node *net.UDPAddr) *relay {
	t.Helper()
	up, err := net.DialUDP("udp4", nil, node)
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{machines: loopback(t), node: up}
	var work sync.WaitGroup
	work.Go(func() {
		forward(r.machines, func(packet []byte, from netip.AddrPort) {
			r.machine.Store(&from)
			if !r.cut.Load() {
				_, _ = r.node.Write(packet) // a packet that cannot be sent is lost
			}
		})
	})
	work.Go(func() {
		forward(r.node, func(packet []byte, _ netip.AddrPort) {
			if to := r.machine.Load(); to != nil && !r.cut.Load() {
				_, _ = r.machines.WriteToUDPAddrPort(packet, *to)
			}
		})
	})
	t.Cleanup(func() {
		if err := errors.Join(r.machines.Close(), r.node.Close()); err != nil {
			t.Error(err)
		}
		work.Wait()
	})
	return r
}

// forward passes on what comes in on a connection until that is closed.
func forward(in *net.UDPConn, packet func([]byte, netip.AddrPort)) {
	for b := make([]byte, 1<<16); ; {
		n, from, err := in.ReadFromUDPAddrPort(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil && n > 0 { // else an ICMP error for an earlier packet
			packet(b[:n], from)
		}
	}
}

// A result that could not be delivered is kept, and delivered over the next connection.
func TestAResultIsKeptUntilItIsDelivered(t *testing.T) {
	w := newTown(t)
	network := newRelay(t, w.mesh.Addr().(*net.UDPAddr))
	w.address = network.machines.LocalAddr().String()
	program := finishing{make(chan struct{})}
	finish := sync.OnceFunc(func() { close(program.finish) })
	a, err := Open(t.Context(), Config{
		Dir: w.settle("laptop", time.Now()), Role: certs.RoleLink, Runner: program, Policy: Policy{Consent: ConsentAllow}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	var agent sync.WaitGroup
	ctx, leave := context.WithCancel(t.Context())
	agent.Go(func() {
		if err := a.Run(ctx); err != nil {
			t.Errorf("the agent ended with %v", err)
		}
	})
	t.Cleanup(func() { leave(); finish(); agent.Wait() })
	w.awaits("the machine is there", w.there("laptop"))
	called, begun := make(chan surfaces.Result, 1), make(begun)
	go func() {
		call := attempt("laptop", "c1", patience)
		call.Sink = begun
		called <- w.hub.Execute(t.Context(), call).Result
	}()
	<-begun // the home receives the call's items
	network.cut.Store(true)
	finish()
	w.awaits("the machine's connections are lost", func() bool { return len(a.mesh.Peers()) == 0 })
	network.cut.Store(false)
	if res := <-called; res.Status != surfaces.StatusDone || string(res.Result) != "1" {
		t.Errorf("got %+v", res)
	}
}

// begun is a sink that is closed by the output of finishing.
type begun chan struct{}

func (b begun) Output(string, []byte) { close(b) }
func (begun) Event(surfaces.Event)    {}

// finishing writes one output, runs until it may finish, and returns 1.
type finishing struct{ finish chan struct{} }

func (finishing) Languages(ctx context.Context) []string { return quickly{}.Languages(ctx) }

func (f finishing) Run(ctx context.Context, p Program, s surfaces.Sink, h surfaces.Host) surfaces.Result {
	s.Output(surfaces.StreamStdout, []byte("begun"))
	<-f.finish
	return quickly{}.Run(ctx, p, s, h)
}
