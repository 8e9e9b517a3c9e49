package engine

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/surfaces"
)

// slowDesk starts paper kernels after what they come from is made, each of which takes its
// time.
type slowDesk struct{ prepares, starts time.Duration }

func (d slowDesk) Start(ctx context.Context, w Want) (kernel.Kernel, error) {
	release := w.Hold()
	time.Sleep(d.prepares)
	release()
	select {
	case <-time.After(d.starts):
		return newPaper(nil), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A call is answered by its deadline also when its process is slow to start, as in a crowd of
// calls. What is made once for all calls takes nothing from its time.
func TestTheDeadlineCountsTheStartOfAProcess(t *testing.T) {
	const limit = 2 * time.Second
	for name, c := range map[string]struct {
		desk slowDesk
		mode surfaces.StateMode
		code surfaces.Code
		took time.Duration
	}{
		"slow start":             {slowDesk{starts: time.Minute}, surfaces.Stateless, surfaces.CodeTimeout, limit},
		"slow start, session":    {slowDesk{starts: time.Minute}, surfaces.Stateful, surfaces.CodeTimeout, limit},
		"slow start, reader":     {slowDesk{starts: time.Minute}, surfaces.ReadOnly, surfaces.CodeTimeout, limit},
		"slow build":             {slowDesk{prepares: time.Minute, starts: time.Second}, surfaces.Stateless, "", time.Minute + time.Second},
		"slow build, session":    {slowDesk{prepares: time.Minute, starts: time.Second}, surfaces.Stateful, "", time.Minute + time.Second},
		"slow build, reader":     {slowDesk{prepares: time.Minute, starts: time.Second}, surfaces.ReadOnly, "", time.Minute + time.Second},
		"slow build, slow start": {slowDesk{prepares: time.Minute, starts: time.Minute}, surfaces.Stateless, surfaces.CodeTimeout, time.Minute + limit},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := New(Config{Node: "n", Kernels: c.desk, Log: slog.New(slog.DiscardHandler)})
				defer e.Close()
				began := time.Now()
				out := e.Execute(t.Context(), surfaces.Attempt{CallID: "1", Actor: keyOne.Actor, Number: 1, Call: surfaces.Call{
					Actor: keyOne.Actor, Session: &surfaces.SessionRef{Key: keyOne, Epoch: 1},
					Request: surfaces.Request{Language: keyOne.Language, StateMode: c.mode, Timeout: limit},
				}})
				if took := time.Since(began); took != c.took {
					t.Errorf("the answer came after %s, want %s", took, c.took)
				}
				var code surfaces.Code
				if out.Result.Code != nil {
					code = *out.Result.Code
				}
				if code != c.code || out.Loss != nil {
					t.Errorf("got code %q, %+v, want code %q, no Loss", code, out, c.code)
				}
			})
		})
	}
}

// A reader waits for the turn of a session whose first call builds its environment no longer
// than its deadline.
func TestAReaderBehindAFirstCallKeepsItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 2 * time.Second
		e := New(Config{Node: "n", Kernels: slowDesk{prepares: time.Minute}, Log: slog.New(slog.DiscardHandler)})
		defer e.Close()
		attempt := func(id string, mode surfaces.StateMode) surfaces.Outcome {
			return e.Execute(t.Context(), surfaces.Attempt{CallID: id, Actor: keyOne.Actor, Number: 1, Call: surfaces.Call{
				Actor: keyOne.Actor, Session: &surfaces.SessionRef{Key: keyOne, Epoch: 1},
				Request: surfaces.Request{Language: keyOne.Language, StateMode: mode, Timeout: limit},
			}})
		}
		first := make(chan surfaces.Outcome, 1)
		go func() { first <- attempt("first", surfaces.Stateful) }()
		synctest.Wait()
		began := time.Now()
		out := attempt("reader", surfaces.ReadOnly)
		if took := time.Since(began); took != limit || out.Result.Code == nil || *out.Result.Code != surfaces.CodeTimeout {
			t.Errorf("the reader's answer after %s: %+v", took, out.Result)
		}
		wentWell(t, <-first)
	})
}
