package agentlink

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// endless runs until it is ended.
type endless struct{ began, ended chan struct{} }

func (endless) Languages(context.Context) []string { return []string{"python"} }

func (e endless) Run(ctx context.Context, p Program, _ surfaces.Sink, _ surfaces.Host) surfaces.Result {
	close(e.began)
	<-ctx.Done()
	close(e.ended)
	return surfaces.Result{CallID: p.CallID, Status: surfaces.StatusDone}
}

// A machine that is unlinked by the mesh ends what runs on it, and itself.
func TestAnUnlinkedMachineEndsItsPrograms(t *testing.T) {
	w := newTown(t)
	program := endless{make(chan struct{}), make(chan struct{})}
	ended := w.runs(w.settle("laptop", time.Now()), program)
	w.awaits("the machine is there", w.there("laptop"))
	called := make(chan surfaces.Result, 1)
	go func() { called <- w.callFor("laptop", "c1", 2*time.Second) }()
	<-program.began
	w.change(func() { delete(w.machines, "laptop") })
	w.hub.Disconnect("laptop")
	select {
	case err := <-ended:
		if !errors.Is(err, ErrUnlinked) {
			t.Errorf("the agent ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the agent goes on")
	}
	select {
	case <-program.ended:
	default:
		t.Error("the program goes on")
	}
	if w.hub.Has("laptop") {
		t.Error("its connection is there")
	}
	if res := <-called; res.Code == nil || *res.Code != surfaces.CodeOutcomeUnknown {
		t.Errorf("the call gave %+v", res)
	}
}

// A call whose machine is unlinked while it is being offered again ends at once, not at
// its deadline.
func TestAMachineIsUnlinkedWhileItsCallIsOffered(t *testing.T) {
	w := newTown(t)
	at := w.opens(w.bare("laptop"), methodAttach, hello{Protocol: protocol, Facts: Facts{Languages: []string{"python"}}})
	defer at.Cancel()
	w.awaits("the machine is there", w.there("laptop"))
	asked, goOn := make(chan struct{}), make(chan struct{})
	w.change(func() { w.looks = func() { asked <- struct{}{}; <-goOn } })
	called := make(chan surfaces.Result, 1)
	go func() { called <- w.callFor("laptop", "c1", time.Hour) }()
	for range 2 { // by the call, and by its first offer
		<-asked
		goOn <- struct{}{}
	}
	<-asked
	w.change(func() { delete(w.machines, "laptop") })
	close(goOn)
	beat := time.NewTicker(time.Second)
	defer beat.Stop()
	for late := time.After(patience); ; {
		select {
		case <-asked:
		case <-beat.C: // it stays: its end would be a change too
			if err := send(at, nil); err != nil {
				t.Fatal(err)
			}
		case res := <-called:
			if res.Code == nil || *res.Code != surfaces.CodeOutcomeUnknown {
				t.Errorf("the call gave %+v", res)
			}
			return
		case <-late:
			t.Fatal("the call goes on")
		}
	}
}
