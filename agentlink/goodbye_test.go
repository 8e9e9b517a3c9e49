package agentlink

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/surfaces"
)

// An agent that is ended while an offer is on its way to it still answers the offer, and runs
// nothing. Its caller waited until the deadline.
func TestAnOfferThatCrossesTheGoodbyeIsAnswered(t *testing.T) {
	attached := make(chan struct{})
	w := newTownServing(t, map[string]func(context.Context, *mesh.Stream) error{methodAttach: func(_ context.Context, s *mesh.Stream) error {
		var hi hello
		if err := receiveFirst(s, maxFirst, &hi); err != nil {
			return err
		}
		if err := sendJSON(s, welcome{Name: "laptop", Actor: "ada", Node: "n"}); err != nil {
			return err
		}
		close(attached)
		for {
			if _, err := receive(s, maxSmall); errors.Is(err, io.EOF) {
				return sendJSON(s, offer{CallID: "c1", Home: "n"})
			} else if err != nil {
				return err
			}
		}
	}})
	program := heedful{make(chan Program, 1)}
	a, err := Open(t.Context(), Config{
		Dir: w.settle("laptop", time.Now()), Role: certs.RoleLink, Runner: program, Policy: Policy{Consent: ConsentAllow}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	call := &hubCall{
		hub: w.hub, attempt: attempt("laptop", "c1", time.Hour), machine: Machine{ID: "laptop"}, began: time.Now(), next: 1, received: map[string]int64{},
		claimed: make(chan struct{}), stopping: make(chan struct{}), done: make(chan struct{}),
	}
	w.hub.mu.Lock()
	w.hub.calls["c1"] = call
	w.hub.mu.Unlock()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	<-attached
	leave()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	select {
	case <-call.done:
	default:
		t.Fatal("its caller waits")
	}
	call.mu.Lock()
	defer call.mu.Unlock()
	if res := call.result; res.Code == nil || *res.Code != surfaces.CodeStopped || *res.Error != "locus link was ended on the machine, and the call with it before it began; nothing ran" {
		t.Errorf("got %+v", res)
	}
	if len(program.began) != 0 {
		t.Error("the program ran")
	}
}

// A node sends a machine that says goodbye all offers that are queued, and nothing after them.
func TestAMachineThatSaysGoodbyeGetsItsOffers(t *testing.T) {
	w := newTown(t)
	at := w.opens(w.bare("laptop"), methodAttach, hello{Protocol: protocol, Facts: Facts{Languages: []string{"python"}}})
	defer at.Cancel()
	w.awaits("the machine is there", w.there("laptop"))
	w.hub.mu.Lock() // so that the goodbye is not handled before the offers are queued
	queue := w.hub.attached["laptop"].queue
	if err := at.CloseSend(); err != nil {
		t.Error(err)
	}
	for _, id := range []string{"c1", "c2", "c3"} {
		queue <- offer{CallID: id, Home: "n"}
	}
	w.hub.mu.Unlock()
	var hi welcome
	if err := receiveJSON(at, maxSmall, &hi); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"c1", "c2", "c3"} {
		var o offer
		if err := receiveJSON(at, maxSmall, &o); err != nil || o.CallID != id {
			t.Fatalf("got %+v, %v", o, err)
		}
	}
	if _, err := at.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("then got %v", err)
	}
	if w.hub.Has("laptop") {
		t.Error("its connection is there")
	}
}
