package peer

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/surfaces"
)

// ErrUnknownCall: the node has no such call.
var ErrUnknownCall = errors.New("peer: there is no such call on that node")

const (
	// followCheck is how often the node is asked about a call that it says nothing of.
	followCheck = 5 * time.Second
	// followGrace is how long the node may leave these questions unanswered, or hold back the
	// end of the call.
	followGrace = 15 * time.Second
)

// errStuck: the node is connected, but does not answer, or does not send the end of a call.
var errStuck = errors.New("peer: the node is connected and does not answer")

// Follow passes the output and events of a call whose record another node holds to a sink,
// from the beginning to the end, and returns the result. It waits for as long as the call
// runs and the node answers. The error is ErrUnknownCall or one of the mesh.
func Follow(ctx context.Context, m *mesh.Mesh, node, actor, callID string, sink surfaces.Sink) (surfaces.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var heard atomic.Bool
	var watching sync.WaitGroup
	watching.Go(func() { watchFollowed(ctx, m, node, aliveAsk{callID, actor}, &heard, cancel) })
	defer func() { cancel(nil); watching.Wait() }()
	f := feed{sink: sink, seen: map[string]int64{}, heard: func() { heard.Store(true) }, whole: func() (surfaces.Result, error) {
		return CallJSON[surfaces.Result](ctx, m, node, methodWhole, outputRequest{Actor: actor, CallID: callID})
	}}
	b, err := json.Marshal(followRequest{Actor: actor, CallID: callID})
	if err != nil {
		return surfaces.Result{}, err
	}
	s, err := m.Stream(ctx, node, methodFollow)
	if err != nil {
		return surfaces.Result{}, err
	}
	defer s.Cancel()
	if err := sendOnly(s, b); err != nil {
		return surfaces.Result{}, err
	}
	e, err := f.read(s)
	switch {
	case isCode(err, codeForgotten):
		return surfaces.Result{}, ErrUnknownCall
	case err != nil:
		return surfaces.Result{}, err
	}
	return e.Result, nil
}

// watchFollowed gives up a call that is followed when its node has said nothing for
// followGrace although it should have, until ctx ends.
func watchFollowed(ctx context.Context, m *mesh.Mesh, node string, q aliveAsk, heard *atomic.Bool, giveUp context.CancelCauseFunc) {
	tick := time.NewTicker(followCheck)
	defer tick.Stop()
	for late := time.Duration(0); late < followGrace; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		asking, done := context.WithTimeout(ctx, followCheck)
		a, err := CallJSON[aliveAnswer](asking, m, node, methodAlive, q)
		done()
		var unreachable *mesh.UnreachableError
		switch silent := errors.As(err, &unreachable) || errors.Is(err, context.DeadlineExceeded); {
		case heard.Swap(false), !silent && !a.Ended:
			late = 0
		default:
			late += followCheck
		}
	}
	giveUp(errStuck)
}
