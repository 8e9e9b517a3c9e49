package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/surfaces"
	"github.com/locusrun/locus/surfaces/tracing"
)

// Fate tells what is known of the node under an attempt: the loss, when it is
// known that the attempt's node, or the session's state on it, is gone for good.
// changed is closed when it is worth asking again.
type Fate func() (loss *surfaces.LostAttempt, changed <-chan struct{})

// Surface runs attempts on one other node, in one of its lives. Its methods may
// be called at the same time.
type Surface struct {
	Mesh *mesh.Mesh
	Node string
	Life uint64
	// Fate tells what became of the node. Required.
	Fate func(a surfaces.Attempt) Fate
	// Held tells whether the mesh holds the node's sessions, because the node is not heard
	// of, or has given them up. It serves none of them then, so a call that has not been
	// sent to it is not: of one that was, nobody could say whether it ran. Required.
	Held func() bool
	// Log is told why the node failed at an attempt, under its call id. Required.
	Log *slog.Logger
}

var _ surfaces.Surface = (*Surface)(nil)

const (
	// firstPause and longestPause bound the waits between two tries to reach a node.
	firstPause   = 20 * time.Millisecond
	longestPause = time.Second
	// slack is how long after its deadline an attempt is given up whose node cannot
	// be reached: a node that can be reached answers within a second of it.
	slack = 1200 * time.Millisecond
	// owed is how long a node that is there has to kill what ran beyond its deadline and to
	// answer: twice what that takes it at most, for it may be busy.
	owed = 3 * time.Second
)

var (
	errGivenUp = errors.New("peer: the node could not be reached within the call's deadline")
	errLost    = errors.New("peer: the node is lost")
	errHeld    = errors.New("peer: the mesh holds what the node has")
	errOwed    = errors.New("peer: the node is there and does not answer the call")
)

// Execute runs one attempt on the node. While the node cannot be reached it tries
// again, until the attempt's deadline has passed or the node is known to be lost.
func (s *Surface) Execute(ctx context.Context, a surfaces.Attempt) surfaces.Outcome {
	t := &try{surface: s, attempt: a, began: time.Now(), feed: feed{sink: a.Sink, seen: map[string]int64{}}}
	return t.run(ctx)
}

// try is one attempt on another node, over as many streams as it takes.
type try struct {
	surface *Surface
	attempt surfaces.Attempt
	began   time.Time
	feed    feed
	sent    bool // the node may have the request
}

// left is how long it is until an attempt is given up whose node cannot be reached.
func (t *try) left() time.Duration { return t.attempt.Limit() + slack - time.Since(t.began) }

func (t *try) run(ctx context.Context) surfaces.Outcome {
	fate := t.surface.Fate(t.attempt)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		e, err := t.once(ctx, fate)
		var unreachable *mesh.UnreachableError
		switch {
		case err == nil:
			return e.outcome()
		case isCode(err, codeMisrouted):
			return surfaces.Outcome{Misrouted: true}
		case isCode(err, codeForgotten):
			return t.unknown("the node that ran the call has forgotten it")
		case errors.As(err, &unreachable):
			t.sent = t.sent || unreachable.Sent
		case isCode(err, codeClosing):
			t.sent = true
		default:
			t.surface.Log.Warn("another node failed at a call", "call_id", t.attempt.CallID, "node", t.surface.Node, "error", err)
			return t.unknown(fmt.Sprintf("node %s failed at the call, which may have run there", t.surface.Node))
		}
		loss, changed := fate()
		if loss != nil {
			return t.lost(*loss)
		}
		if errors.Is(err, errOwed) {
			t.surface.Log.Warn("another node owes the answer to a call", "call_id", t.attempt.CallID, "node", t.surface.Node)
			return t.unknown(fmt.Sprintf("node %s is there and has not answered the call within %s of its deadline; the call may have run there, or may still run", t.surface.Node, owed))
		}
		if ctx.Err() != nil || errors.Is(err, errGivenUp) || t.left() <= 0 {
			return t.givenUp(ctx)
		}
		wait := min(pause/2+rand.N(pause), t.left())
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// once asks for the attempt on one stream and follows it to its end. When the node
// turns out to be lost meanwhile it stops waiting: a node that is cut off keeps a
// stream looking alive for a while.
func (t *try) once(ctx context.Context, fate Fate) (*end, error) {
	if !t.sent && t.surface.Held() {
		return nil, &mesh.UnreachableError{Peer: t.surface.Node, Cause: errHeld}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	watching := t.watch(ctx, fate, cancel)
	defer func() { cancel(nil); watching() }()

	head := newAttempt(&t.attempt, t.surface.Life)
	head.From, head.Trace = t.feed.at, tracing.Carry(ctx)
	b, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	s, err := t.surface.Mesh.Stream(ctx, t.surface.Node, methodExecute)
	if err != nil {
		return nil, err
	}
	defer s.Cancel()
	code, stdin := t.attempt.Call.Code, t.attempt.Call.Stdin
	request := appendPart(make([]byte, 0, len(b)+len(code)+len(stdin)+16), len(b), b)
	request = append(appendPart(request, len(code), []byte(code)), stdin...)
	if err := sendOnly(s, request); err != nil {
		return nil, err
	}
	t.feed.whole = func() (surfaces.Result, error) {
		q := wholly{Actor: t.attempt.Actor, CallID: t.attempt.CallID, Number: t.attempt.Number}
		if head.Session != nil {
			q.Epoch = head.Session.Epoch
		}
		return Ask[surfaces.Result](ctx, t.surface.Mesh, t.surface.Node, methodWhole, q)
	}
	return t.feed.read(s)
}

// watchAfter is the age from which an attempt is watched. Most attempts end before, so
// they cost no goroutines; the loss of a node before that is seen this much later.
const watchAfter = 20 * time.Millisecond

// watch gives up an attempt whose node is lost, or that is overdue, until ctx ends. end
// waits until nothing watches any more; call it once ctx has ended.
func (t *try) watch(ctx context.Context, fate Fate, giveUp context.CancelCauseFunc) (end func()) {
	var watching sync.WaitGroup
	watching.Add(1)
	timer := time.AfterFunc(watchAfter, func() {
		defer watching.Done()
		watching.Go(func() { t.overdue(ctx, giveUp) })
		for {
			loss, changed := fate()
			if loss != nil {
				giveUp(errLost)
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		if timer.Stop() {
			watching.Done()
		}
		watching.Wait()
	}
}

// aliveWithin is how soon a node that is there says so.
const aliveWithin = time.Second

// overdue gives up an attempt whose deadline has passed, when its node says nothing any
// more, is itself cut off and holds the attempt still, or says that no time is left and
// does not give the outcome either. A node that is there has ended the attempt by then, or
// says here that its clock stands still, since it is paused or waits for its process. The
// stream alone would look alive for much longer.
func (t *try) overdue(ctx context.Context, giveUp context.CancelCauseFunc) {
	timer := time.NewTimer(t.left() - aliveWithin)
	defer timer.Stop()
	var since time.Time // when the node was first found to owe the outcome
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		within := aliveWithin
		if left := t.left(); left > 0 {
			within = min(within, left) // of a stream that was opened anew, just before the end
		}
		asking, cancel := context.WithTimeout(ctx, within)
		a, err := Ask[aliveAnswer](asking, t.surface.Mesh, t.surface.Node, methodAlive, aliveAsk{t.attempt.CallID})
		cancel()
		var unreachable *mesh.UnreachableError
		switch {
		case errors.As(err, &unreachable) || err == nil && a.Held:
			giveUp(errGivenUp)
			return
		case err == nil && (a.Left == nil || *a.Left > 0):
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= owed:
			giveUp(errOwed)
			return
		}
		timer.Reset(aliveWithin)
	}
}

// lost is the outcome when the node, or the session on it, is gone for good.
func (t *try) lost(loss surfaces.LostAttempt) surfaces.Outcome {
	loss.MayHaveRun = t.sent
	out := t.unknown(fmt.Sprintf("node %s was lost under the call (%s)", t.surface.Node, loss.Reason))
	if !t.sent {
		out.Result = t.refusal(surfaces.CodeOwnerUnreachable, fmt.Sprintf("node %s was lost before the call reached it; nothing ran", t.surface.Node))
	}
	if t.attempt.Call.StateMode == surfaces.ReadOnly && t.attempt.Call.Session != nil {
		out.Result = surfaces.Failed(t.partial(), surfaces.CodeSessionLost,
			fmt.Sprintf("node %s, which held the session, was lost under the call (%s); what was to be read is gone with it", t.surface.Node, loss.Reason))
	}
	if t.attempt.Call.Session != nil {
		out.Result.StateLost = surfaces.StateLost{Loss: &surfaces.Loss{Reason: loss.Reason, At: loss.At.UTC().Format(time.RFC3339Nano), Epoch: loss.Epoch}}
	}
	out.Loss = &loss
	return out
}

// givenUp is the outcome when the node could not be reached in time and may still
// be there.
func (t *try) givenUp(ctx context.Context) surfaces.Outcome {
	if t.sent {
		return t.unknown(fmt.Sprintf("node %s cannot be reached, or is cut off from the mesh; the call may have run there, or may still run", t.surface.Node))
	}
	if ctx.Err() != nil {
		return surfaces.Outcome{Result: t.refusal(surfaces.CodeStopped, "the call was stopped before it had reached its node; nothing ran")}
	}
	return surfaces.Outcome{Result: t.refusal(surfaces.CodeOwnerUnreachable,
		fmt.Sprintf("node %s, which owns the session, cannot be reached; nothing ran", t.surface.Node))}
}

func (t *try) unknown(why string) surfaces.Outcome {
	return surfaces.Outcome{Result: surfaces.Failed(t.partial(), surfaces.CodeOutcomeUnknown, why)}
}

func (t *try) refusal(code surfaces.Code, message string) surfaces.Result {
	r := surfaces.Refusal{Code: code, Message: message}
	if code == surfaces.CodeOwnerUnreachable {
		r.RetryAfterS = 1
	}
	return r.Result(t.partial())
}

func (t *try) partial() surfaces.Partial {
	return surfaces.Partial{
		CallID: t.attempt.CallID, Node: t.surface.Node, At: t.attempt.Call.Coordinates(), Attempts: t.attempt.Number,
		DurationMS: surfaces.Milliseconds(time.Since(t.began)),
	}
}
