package agentlink

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/surfaces"
)

// heedful runs until it is ended, and tells of the end what a program of this machine does.
type heedful struct{ began chan Program }

func (heedful) Languages(context.Context) []string { return []string{"python"} }

func (h heedful) Run(ctx context.Context, p Program, _ surfaces.Sink, _ surfaces.Host) surfaces.Result {
	h.began <- p
	<-ctx.Done()
	return surfaces.Failed(surfaces.Partial{CallID: p.CallID}, surfaces.CodeStopped, "the call was stopped: it was interrupted")
}

// An agent that its owner ends tells the callers so before it goes, and leaves no result to be
// delivered later.
func TestAnEndingAgentReportsItsCalls(t *testing.T) {
	w := newTown(t)
	program := heedful{make(chan Program, 1)}
	dir := w.settle("laptop", time.Now())
	a, err := Open(t.Context(), Config{
		Dir: dir, Role: certs.RoleLink, Runner: program, Policy: Policy{Consent: ConsentAllow}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	w.awaits("the machine is there", w.there("laptop"))
	called := make(chan surfaces.Result, 1)
	go func() { called <- w.callFor("laptop", "c1", time.Hour) }()
	if p := <-program.began; p.CallTimeout != time.Hour || p.Timeout > time.Hour {
		t.Errorf("it is given %s of %s", p.Timeout, p.CallTimeout)
	}
	leave()
	select {
	case res := <-called:
		if res.Code == nil || *res.Code != surfaces.CodeStopped || *res.Error != "locus link was ended on the machine, and the call with it" {
			t.Errorf("got %+v", res)
		}
	case <-time.After(patience):
		t.Fatal("its caller waits")
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if left, err := a.journal.load(); err != nil || len(left) != 0 {
		t.Errorf("%d calls are left, %v", len(left), err)
	}
}

// An unlinked machine ends its programs at once; one that its owner ends gives them time.
func TestOnlyAnUnlinkedMachineGrantsNoTime(t *testing.T) {
	for name, unlinked := range map[string]bool{"unlinked": true, "left": false} {
		w := newTown(t)
		causes := make(chan error, 1)
		began := make(chan struct{})
		a, err := Open(t.Context(), Config{
			Dir: w.settle("laptop", time.Now()), Role: certs.RoleLink, Policy: Policy{Consent: ConsentAllow}, Log: slog.New(slog.DiscardHandler),
			Runner: causing{began, causes},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		w.awaits("the machine is there", w.there("laptop"))
		called := make(chan surfaces.Result, 1)
		go func() { called <- w.callFor("laptop", "c1", time.Hour) }()
		<-began
		if unlinked {
			w.change(func() { delete(w.machines, "laptop") })
			w.hub.Disconnect("laptop")
		} else {
			leave()
		}
		if cause := <-causes; errors.Is(cause, surfaces.ErrNoGrace) != unlinked {
			t.Errorf("%s: what runs is ended by %v", name, cause)
		}
		<-called
		if err := <-ended; errors.Is(err, ErrUnlinked) != unlinked {
			t.Errorf("%s: the agent ended with %v", name, err)
		}
		leave()
	}
}

// causing tells why it was ended.
type causing struct {
	began  chan struct{}
	causes chan error
}

func (causing) Languages(context.Context) []string { return []string{"python"} }

func (c causing) Run(ctx context.Context, p Program, _ surfaces.Sink, _ surfaces.Host) surfaces.Result {
	close(c.began)
	<-ctx.Done()
	c.causes <- context.Cause(ctx)
	return surfaces.Result{CallID: p.CallID, Status: surfaces.StatusDone}
}
