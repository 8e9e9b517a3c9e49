package engine

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/surfaces"
)

// mute is a kernel whose first copy is killed, before it says anything, when an ended call
// is cleared.
type mute struct {
	*paper
	forks     int
	interrupt chan struct{}
}

func (m *mute) Run(_ context.Context, p kernel.Program) (kernel.Report, error) {
	if p.Code == "endless" {
		<-m.interrupt
	}
	return kernel.Report{}, nil
}

func (m *mute) Interrupt(int) error {
	close(m.interrupt)
	return nil
}

func (m *mute) Fork(ctx context.Context, kind kernel.Kind, name string) (kernel.Kernel, []surfaces.Notice, error) {
	if m.forks++; m.forks == 1 {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	}
	return m.paper.Fork(ctx, kind, name)
}

type mutes struct{}

func (mutes) Start(context.Context, Want) (kernel.Kernel, error) {
	return &mute{paper: newPaper(nil), interrupt: make(chan struct{})}, nil
}

// A copy that is killed while an ended call is cleared is made again at once; its reader
// does not wait for the dead one.
func TestCopyKilledByACleanupIsForkedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Config{Node: "n", Kernels: mutes{}, Log: slog.New(slog.DiscardHandler)})
		wentWell(t, e.attempt("first", surfaces.Stateful, keyOne, 1, "", nil))
		var all sync.WaitGroup
		all.Go(func() {
			out := e.Execute(t.Context(), surfaces.Attempt{CallID: "endless", Actor: keyOne.Actor, Number: 1, Call: surfaces.Call{
				Actor: keyOne.Actor, Session: &surfaces.SessionRef{Key: keyOne, Epoch: 1},
				Request: surfaces.Request{Code: "endless", Language: keyOne.Language, StateMode: surfaces.Stateful, Timeout: time.Second},
			}})
			if out.Loss != nil || out.Result.Code == nil || *out.Result.Code != surfaces.CodeTimeout {
				t.Errorf("got %+v, want no Loss, Result.Code %v", out, surfaces.CodeTimeout)
			}
		})
		synctest.Wait()
		began := time.Now()
		wentWell(t, e.attempt("reader", surfaces.ReadOnly, keyOne, 1, "", nil))
		if took := time.Since(began); took != time.Second {
			t.Errorf("the reader waited %s", took)
		}
		all.Wait()
		e.Close()
	})
}
