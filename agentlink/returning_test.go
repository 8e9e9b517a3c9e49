package agentlink

import (
	"testing"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// A machine whose connection breaks although it is awake, because its node stood still, is
// back at once. A call that comes before it was refused, as if the machine slept.
func TestACallWaitsForAMachineThatIsExpectedBack(t *testing.T) {
	w := newTown(t)
	w.hub.returnWithin = time.Hour
	m := w.bare("laptop")
	at := w.opens(m, methodAttach, pythonHello)
	w.awaits("the machine is there", w.there("laptop"))
	at.Cancel()
	w.awaits("the machine is away", func() bool { return !w.hub.Has("laptop") })
	looked := make(chan struct{}, 100)
	w.change(func() { w.looks = func() { looked <- struct{}{} } })
	called := make(chan surfaces.Result, 1)
	go func() { called <- w.callFor("laptop", "c1", time.Hour) }()
	for range 2 { // by the call, and by its first offer
		<-looked
	}
	w.change(func() { w.looks = nil })
	at = w.opens(m, methodAttach, pythonHello)
	defer at.Cancel()
	var hi welcome
	if err := receiveJSON(at, maxSmall, &hi); err != nil {
		t.Fatal(err)
	}
	offered := make(chan offer, 1)
	go func() {
		var o offer
		if receiveJSON(at, maxSmall, &o) == nil {
			offered <- o
		}
	}()
	select {
	case o := <-offered:
		if o.CallID != "c1" {
			t.Errorf("it is offered %+v", o)
		}
	case res := <-called:
		t.Errorf("the call was answered: %s", *res.Error)
	case <-time.After(patience):
		t.Error("the call is not offered")
	}
}

// While a machine is expected back, the directory keeps it where it was: calls of other nodes
// were refused, because only those of its own node waited.
func TestAMachineThatIsExpectedBackStaysInTheDirectory(t *testing.T) {
	w := newTown(t)
	w.hub.returnWithin = time.Hour
	laptop := w.opens(w.bare("laptop"), methodAttach, pythonHello)
	w.awaits("the machine is there", w.there("laptop"))
	laptop.Cancel()
	w.awaits("it is expected back", func() bool { return len(w.hub.Expected()) == 1 })
	tablet := w.opens(w.bare("tablet"), methodAttach, pythonHello)
	defer tablet.Cancel()
	w.awaits("another machine is there", w.there("tablet")) // it was reported after the first
	if !w.there("laptop")() {
		t.Error("the directory has it as away")
	}
}

// A machine that was expected back and has not come is away in the directory, as far as the
// directory has it at this node.
func TestAMachineThatIsLateIsAway(t *testing.T) {
	w := newTown(t)
	w.hub.returnWithin = time.Millisecond
	at := w.opens(w.bare("laptop"), methodAttach, pythonHello)
	w.awaits("the machine is there", w.there("laptop"))
	at.Cancel()
	w.awaits("the machine is away", func() bool { return !w.there("laptop")() })
}

// Nobody waits for a machine that is silent or has said goodbye, nor longer than a machine
// that is awake takes.
func TestACallDoesNotWaitForAMachineThatIsAway(t *testing.T) {
	for name, cause := range map[string]error{"goodbye": errGoodbye, "silent": errSilent, "the only node drains": errDraining, "late": nil} {
		w := newTown(t)
		at := w.opens(w.bare("laptop"), methodAttach, pythonHello)
		w.awaits("the machine is there", w.there("laptop"))
		w.hub.mu.Lock()
		w.hub.returnWithin = time.Hour
		if cause == nil {
			w.hub.returnWithin = time.Millisecond
		}
		w.hub.attached["laptop"].end(cause)
		w.hub.mu.Unlock()
		w.awaits("the machine is away", func() bool { return !w.hub.Has("laptop") })
		res := w.callFor("laptop", "c1", time.Hour)
		if res.Code == nil || *res.Code != surfaces.CodeMachineUnreachable {
			t.Errorf("%s: got %+v", name, res)
		}
		at.Cancel()
	}
}

// A call whose machine is away does not wait for a registry that has no leader; nor does one
// that was offered already, whose machine may connect to this node meanwhile.
func TestACallDoesNotWaitForTheRegistry(t *testing.T) {
	w := newTown(t)
	m := w.bare("laptop")
	hi := pythonHello
	at := w.opens(m, methodAttach, hi)
	w.awaits("the machine is there", w.there("laptop"))
	second := make(chan surfaces.Result, 1)
	go func() { second <- w.callFor("laptop", "c2", time.Hour) }()
	w.awaits("it is offered", func() bool { return offersOf(w.hub, "laptop") == 1 })
	w.change(func() { w.leaderless = true })
	w.hub.mu.Lock()
	w.hub.attached["laptop"].end(errSilent)
	w.hub.mu.Unlock()
	w.awaits("the machine is away", func() bool { return !w.hub.Has("laptop") })
	first := make(chan surfaces.Result, 1)
	go func() { first <- w.callFor("laptop", "c1", time.Hour) }()
	select {
	case res := <-first:
		if res.Code == nil || *res.Code != surfaces.CodeMachineUnreachable {
			t.Errorf("got %+v", res)
		}
	case <-time.After(patience):
		t.Error("it waits")
	}
	at.Cancel()
	at = w.opens(m, methodAttach, hi)
	defer at.Cancel()
	w.awaits("the other call is offered again", func() bool { return offersOf(w.hub, "laptop") == 1 })
}

// offersOf returns how many calls a connected machine was offered on its connection.
func offersOf(h *Hub, machine string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at := h.attached[machine]; at != nil {
		return len(at.offers)
	}
	return 0
}
