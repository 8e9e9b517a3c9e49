package engine

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/surfaces"
)

// crowd is a kernel that ignores interrupts, and has so many processes that they have not
// ended when kill returns.
type crowd struct {
	*paper
	clears  chan struct{} // closed when the last of them has ended
	cleared chan struct{} // closed when Kill is through
}

func (c *crowd) Run(context.Context, kernel.Program) (kernel.Report, error) {
	<-c.process.Done()
	return kernel.Report{}, &kernel.Died{Started: true, Exit: c.process.Exit()}
}

func (c *crowd) Interrupt(int) error { return nil }

func (c *crowd) Kill() {
	c.kill.Do(func() {
		<-c.clears
		close(c.cleared)
	})
}

type crowds struct{ made chan *crowd }

func (c crowds) Start(context.Context, Want) (kernel.Kernel, error) {
	k := &crowd{paper: newPaper(nil), clears: make(chan struct{}), cleared: make(chan struct{})}
	k.process = sandbox.FakeProcess(k.dead)
	c.made <- k
	return k, nil
}

// The answer does not wait until the last of many processes has ended.
func TestDeadlineHoldsWithThousandsOfProcesses(t *testing.T) {
	for _, mode := range []surfaces.StateMode{surfaces.Stateless, surfaces.Stateful} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				made := crowds{make(chan *crowd, 1)}
				lost := make(chan LostSession, 1)
				e := New(Config{Node: "n", Kernels: made, Log: slog.New(slog.DiscardHandler), Lost: func(l LostSession) { lost <- l }})
				const limit = 2 * time.Second
				began := time.Now()
				out := e.Execute(t.Context(), surfaces.Attempt{CallID: "1", Actor: keyOne.Actor, Number: 1, Call: surfaces.Call{
					Actor: keyOne.Actor, Session: &surfaces.SessionRef{Key: keyOne, Epoch: 1},
					Request: surfaces.Request{Language: keyOne.Language, StateMode: mode, Timeout: limit},
				}})
				if took := time.Since(began); took != limit+interruptGrace+killGrace {
					t.Errorf("the answer came after %s", took)
				}
				if out.Loss != nil || out.Result.Code == nil || *out.Result.Code != surfaces.CodeTimeout || out.Result.Exit.Signal != "SIGKILL" {
					t.Errorf("got %+v, want no Loss, Result.Code %v, Result.Exit.Signal \"SIGKILL\"", out, surfaces.CodeTimeout)
				}
				k := <-made.made
				select {
				case <-k.cleared:
					t.Error("the processes had ended: the test has tried nothing")
				default:
				}
				close(k.clears)
				<-k.cleared
				if mode == surfaces.Stateful {
					if l := <-lost; l.Reason != reasonTimeout {
						t.Errorf("told %+v", l)
					}
				}
				e.Close()
			})
		})
	}
}
