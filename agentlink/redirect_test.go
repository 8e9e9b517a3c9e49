package agentlink

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/surfaces"
)

var pythonHello = hello{Protocol: protocol, Facts: Facts{Languages: []string{"python"}}}

// adds adds another node to the town, which serves only offers, and returns its mesh.
func (w *town) adds(node string, offers func(context.Context, *mesh.Stream) error) {
	w.t.Helper()
	m, err := mesh.Open(mesh.Config{
		Conn: loopback(w.t), Credentials: w.credentials(certs.RoleNode, node, time.Now()), Log: slog.New(slog.DiscardHandler),
		Methods: map[string]mesh.Method{methodOffer: {Roles: []certs.Role{certs.RoleNode}, Class: mesh.Control, Handle: offers}},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := m.Close(); err != nil {
			w.t.Error(err)
		}
	})
	w.change(func() { w.others = map[string]string{node: m.Addr().String()} })
}

// accepting serves offers as a node to which the machine is connected, and passes them on.
func accepting(offers chan<- offer) func(context.Context, *mesh.Stream) error {
	return func(_ context.Context, s *mesh.Stream) error {
		var q offerRequest
		if err := receiveFirst(s, maxSmall, &q); err != nil {
			return err
		}
		offers <- q.Offer
		return sendJSON(s, offerReply{Sent: true})
	}
}

// While a machine moves from a node that drains to another, calls for it wait, and are offered
// there; they were refused.
func TestACallWaitsForAMachineThatMoves(t *testing.T) {
	for name, drain := range map[string]func(*Hub){"the node ends": (*Hub).Drain, "the node is drained": func(h *Hub) { h.Redirect(true) }} {
		w := newTown(t)
		offers := make(chan offer, 100)
		w.adds("o", accepting(offers))
		w.hub.returnWithin = time.Hour
		at := w.opens(w.bare("laptop"), methodAttach, pythonHello)
		w.awaits("the machine is there", w.there("laptop"))
		drain(w.hub)
		looked := make(chan struct{}, 100)
		w.change(func() { w.looks = func() { looked <- struct{}{} } })
		ctx, leave := context.WithCancel(t.Context())
		called := make(chan surfaces.Result, 1)
		go func() { called <- w.callIn(ctx, "laptop", "c1", time.Hour) }()
		for range 2 { // by the call, and by its first offer
			<-looked
		}
		w.set("laptop", func(m *Machine) { m.Node = "o" })
		w.hub.Moved("laptop")
		select {
		case o := <-offers:
			if o.CallID != "c1" {
				t.Errorf("%s: it is offered %+v", name, o)
			}
		case res := <-called:
			t.Errorf("%s: the call was answered: %s", name, *res.Error)
		case <-time.After(patience):
			t.Errorf("%s: the call is not offered", name)
		}
		leave()
		at.Cancel()
	}
}

// A node that ends waits for the machines that it has sent to other nodes, until they are
// there.
func TestANodeThatEndsWaitsForItsMachinesToMove(t *testing.T) {
	w := newTown(t)
	w.change(func() { w.others = map[string]string{"o": "127.0.0.1:1"} })
	w.hub.returnWithin = time.Hour
	at := w.opens(w.bare("laptop"), methodAttach, pythonHello)
	defer at.Cancel()
	w.awaits("the machine is there", w.there("laptop"))
	w.hub.Drain()
	moved := make(chan struct{})
	go func() { defer close(moved); w.hub.AwaitMoved(t.Context()) }()
	select {
	case <-moved:
		t.Fatal("it does not wait")
	default:
	}
	if got := w.hub.Expected(); len(got) != 1 || got[0] != "laptop" {
		t.Fatalf("got %v, want laptop to be expected", got)
	}
	w.hub.Moved("laptop")
	select {
	case <-moved:
	case <-time.After(patience):
		t.Fatal("it still waits")
	}
}

// A node that is drained sends each machine to other nodes once, those that were connected and
// those that come; one that comes back can reach no other node. It accepts all again when it is
// no longer drained.
func TestADrainedNodeSendsItsMachinesElsewhereOnce(t *testing.T) {
	w := newTown(t)
	w.change(func() { w.others = map[string]string{"o": "127.0.0.1:1"} })
	sent := func(s *mesh.Stream) bool {
		t.Helper()
		var hi welcome
		err := receiveJSON(s, maxSmall, &hi)
		if err == nil {
			return false
		}
		if !isCode(err, codeDraining) {
			t.Errorf("got %v, want %s", err, codeDraining)
		}
		return true
	}
	laptop, tablet := w.bare("laptop"), w.bare("tablet")
	at := w.opens(laptop, methodAttach, pythonHello)
	if sent(at) {
		t.Fatal("it is refused before the node is drained")
	}
	for range 2 { // draining is set again at each change of the registry
		w.hub.Redirect(true)
	}
	var e *mesh.Error
	if _, err := receive(at, maxSmall); !errors.As(err, &e) || e.Code != codeDraining {
		t.Errorf("got %v, want %s", err, codeDraining)
	}
	at = w.opens(laptop, methodAttach, pythonHello)
	defer at.Cancel()
	if sent(at) {
		t.Error("it is sent elsewhere again")
	}
	for _, want := range []bool{true, false} {
		at := w.opens(tablet, methodAttach, pythonHello)
		defer at.Cancel()
		if got := sent(at); got != want {
			t.Errorf("another machine was sent elsewhere: %v, want %v", got, want)
		}
	}
	w.hub.Redirect(true)
	if got := w.hub.Connected(); len(got) != 2 {
		t.Errorf("got %v, want both machines to stay", got)
	}
	w.hub.Redirect(false)
	phone := w.opens(w.bare("phone"), methodAttach, pythonHello)
	defer phone.Cancel()
	if sent(phone) {
		t.Error("it is refused after the drain")
	}
}

// A machine that is sent elsewhere goes to a node that is up, which it is told, and not to the
// next one that it knows, which may be down for long: it took 5 s to find that out.
func TestAMachineGoesToTheNodeThatItIsSentTo(t *testing.T) {
	w := newTown(t)
	named := newRelay(t, w.mesh.Addr().(*net.UDPAddr))
	down := loopback(t)
	defer down.Close()
	w.change(func() {
		w.nodes = []mesh.NodeAddr{{ID: "n", Addr: w.address}, {ID: "down", Addr: down.LocalAddr().String()}}
	})
	w.runs(w.settle("laptop", time.Now()), quickly{})
	w.awaits("the machine is there", w.there("laptop"))
	w.change(func() { w.others = map[string]string{"o": named.machines.LocalAddr().String()} })
	w.hub.Redirect(true)
	w.awaits("the machine is where it was sent", func() bool { return named.machine.Load() != nil && w.hub.Has("laptop") })
	packet := make([]byte, 1)
	if err := down.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, _, err := down.ReadFrom(packet); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %d bytes, %v, at the node that is down, want none", n, err)
	}
}

// An offer to a node that is silent ends when the machine is at another node, and the call is
// offered there; it was waited for up to three seconds.
func TestAnOfferToASilentNodeEndsWhenTheMachineHasMoved(t *testing.T) {
	w := newTown(t)
	w.hub.offerWithin = time.Hour
	asked := make(chan struct{}, 100)
	w.adds("o", func(ctx context.Context, s *mesh.Stream) error {
		asked <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	})
	laptop := w.bare("laptop")
	w.set("laptop", func(m *Machine) { m.Node = "o" })
	ctx, leave := context.WithCancel(t.Context())
	called := make(chan surfaces.Result, 1)
	go func() { called <- w.callIn(ctx, "laptop", "c1", time.Hour) }()
	<-asked
	at := w.opens(laptop, methodAttach, pythonHello)
	defer at.Cancel()
	w.awaits("the call is offered where the machine is", func() bool { return offersOf(w.hub, "laptop") == 1 })
	leave()
	<-called
}
