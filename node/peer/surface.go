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

// Fate returns the loss of an attempt, once it is known that its node, or the session's
// state on the node, is gone for good. changed is closed when Fate should be called again.
type Fate func() (loss *surfaces.LostAttempt, changed <-chan struct{})

// Surface runs attempts on one other node, in one of its lives. Its methods are safe for
// concurrent use.
type Surface struct {
	Mesh *mesh.Mesh
	// Node is the called node, Incarnation the life for which the route was made.
	Node        string
	Incarnation uint64
	// Fate returns the Fate of an attempt. Required.
	Fate func(a surfaces.Attempt) Fate
	// Suspended reports whether the mesh considers the node unreachable or has given it up. The
	// node serves no sessions then, so a call that was not sent yet is not sent: nobody
	// could say whether it ran. Required.
	Suspended func() bool
	// Log gets the errors of the node, with the call id. Required.
	Log *slog.Logger
}

var _ surfaces.Surface = (*Surface)(nil)

const (
	// firstPause and longestPause bound the pauses between attempts to reach a node.
	firstPause   = 20 * time.Millisecond
	longestPause = time.Second
	// slack is how long after its deadline an attempt is given up if its node cannot be
	// reached. A reachable node answers within a second after the deadline.
	slack = 1200 * time.Millisecond
	// answerGrace is how long a live node may take after the deadline to kill the code and to
	// answer. It is twice what that should take at most, because the node may be busy.
	answerGrace = 3 * time.Second
)

var (
	errGivenUp  = errors.New("peer: the node could not be reached within the call's deadline")
	errLost     = errors.New("peer: the node is lost")
	errHeld     = errors.New("peer: the mesh considers the node unreachable")
	errNoAnswer = errors.New("peer: the node is alive but does not answer the call")
)

// Execute runs one attempt on the node. If the node cannot be reached it retries, until the
// deadline has passed or the node is known to be lost.
func (s *Surface) Execute(ctx context.Context, a surfaces.Attempt) surfaces.Outcome {
	t := &remoteAttempt{surface: s, attempt: a, began: time.Now(), feed: feed{sink: a.Sink, seen: map[string]int64{}}}
	return t.run(ctx)
}

// remoteAttempt is one attempt on another node, over one or more streams.
type remoteAttempt struct {
	surface *Surface
	attempt surfaces.Attempt
	began   time.Time
	feed    feed
	sent    bool // the node may have received the request
}

// remaining returns the time until the call's deadline.
func (t *remoteAttempt) remaining() time.Duration { return t.attempt.Limit() - time.Since(t.began) }

// patience returns the time until the attempt is given up if its node cannot be reached. An
// attempt that was not sent has no use for the slack: its code could not run any more.
func (t *remoteAttempt) patience() time.Duration {
	if !t.sent {
		return t.remaining()
	}
	return t.remaining() + slack
}

func (t *remoteAttempt) run(ctx context.Context) surfaces.Outcome {
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
		if errors.Is(err, errNoAnswer) {
			t.surface.Log.Warn("another node owes the answer to a call", "call_id", t.attempt.CallID, "node", t.surface.Node)
			return t.unknown(fmt.Sprintf("node %s is there and has not answered the call within %s of its deadline; the call may have run there, or may still run", t.surface.Node, answerGrace))
		}
		if ctx.Err() != nil || errors.Is(err, errGivenUp) || t.patience() <= 0 {
			return t.givenUp(ctx)
		}
		wait := min(pause/2+rand.N(pause), t.patience())
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// once requests the attempt on one stream and follows it to its end. It stops waiting when
// the node is known to be lost: the stream to a node that is cut off looks alive for a
// while.
func (t *remoteAttempt) once(ctx context.Context, fate Fate) (*end, error) {
	if !t.sent && t.surface.Suspended() {
		return nil, &mesh.UnreachableError{Peer: t.surface.Node, Cause: errHeld}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	watching := t.watch(ctx, fate, cancel)
	defer func() { cancel(nil); watching() }()

	head := newAttempt(&t.attempt, t.surface.Incarnation, t.remaining())
	head.From, head.Trace = t.feed.at, tracing.Inject(ctx)
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
		q := outputRequest{Actor: t.attempt.Actor, CallID: t.attempt.CallID, Number: t.attempt.Number}
		if head.Session != nil {
			q.Epoch = head.Session.Epoch
		}
		return CallJSON[surfaces.Result](ctx, t.surface.Mesh, t.surface.Node, methodWhole, q)
	}
	return t.feed.read(s)
}

// watchAfter is the age from which an attempt is watched. Most attempts end earlier, and so
// need no extra goroutines. The loss of a node is noticed this much later.
const watchAfter = 20 * time.Millisecond

// watch gives up an attempt when its node is lost or it is overdue, until ctx ends. end
// waits for the goroutines of watch; call it after ctx has ended.
func (t *remoteAttempt) watch(ctx context.Context, fate Fate, giveUp context.CancelCauseFunc) (end func()) {
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

// aliveWithin is how soon a live node answers whether it is alive.
const aliveWithin = time.Second

// overdue gives up an attempt after its deadline if its node does not answer, has suspended
// the attempt because it is cut off itself, or says that no time is left but does not
// deliver the outcome. A healthy node has ended the attempt by then, or says that the clock
// of the attempt stands still, because it is paused or its environment is built. The stream
// alone would look alive for much longer.
func (t *remoteAttempt) overdue(ctx context.Context, giveUp context.CancelCauseFunc) {
	timer := time.NewTimer(t.remaining() + slack - aliveWithin)
	defer timer.Stop()
	var since time.Time // when the node first said that no time is left
	for first := true; ; first = false {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		within := aliveWithin
		if first {
			within = min(within, t.remaining()+slack) // less, or none, if the stream was opened just before the end
		}
		asking, cancel := context.WithTimeout(ctx, within)
		a, err := CallJSON[aliveAnswer](asking, t.surface.Mesh, t.surface.Node, methodAlive, aliveAsk{CallID: t.attempt.CallID})
		cancel()
		var unreachable *mesh.UnreachableError
		switch {
		case errors.As(err, &unreachable) || err == nil && a.Held:
			giveUp(errGivenUp)
			return
		case err == nil && (a.Remaining == nil || *a.Remaining > 0):
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= answerGrace:
			giveUp(errNoAnswer)
			return
		}
		timer.Reset(aliveWithin)
	}
}

// lost returns the outcome if the node, or the session on it, is gone for good.
func (t *remoteAttempt) lost(loss surfaces.LostAttempt) surfaces.Outcome {
	loss.MayHaveRun = t.sent
	out := t.unknown(fmt.Sprintf("node %s was lost during the call (%s)", t.surface.Node, loss.Reason))
	if !t.sent {
		out.Result = t.refusal(surfaces.CodeOwnerUnreachable, fmt.Sprintf("node %s was lost before the call reached it; nothing ran", t.surface.Node))
	}
	if t.attempt.Call.StateMode == surfaces.ReadOnly && t.attempt.Call.Session != nil {
		out.Result = surfaces.Failed(t.partial(), surfaces.CodeSessionLost,
			fmt.Sprintf("node %s, which held the session, was lost during the call (%s); what was to be read is gone with it", t.surface.Node, loss.Reason))
	}
	if t.attempt.Call.Session != nil {
		out.Result.StateLost = surfaces.StateLost{Loss: &surfaces.Loss{Reason: loss.Reason, At: loss.At.UTC().Format(time.RFC3339Nano), Epoch: loss.Epoch}}
	}
	out.Loss = &loss
	return out
}

// givenUp returns the outcome if the node could not be reached in time but may still be
// alive.
func (t *remoteAttempt) givenUp(ctx context.Context) surfaces.Outcome {
	if t.sent {
		return t.unknown(fmt.Sprintf("node %s cannot be reached, or is cut off from the mesh; the call may have run there, or may still run", t.surface.Node))
	}
	if ctx.Err() != nil {
		return surfaces.Outcome{Result: t.refusal(surfaces.CodeStopped, "the call was stopped before it had reached its node; nothing ran")}
	}
	return surfaces.Outcome{Result: t.refusal(surfaces.CodeOwnerUnreachable,
		fmt.Sprintf("node %s, which owns the session, cannot be reached; nothing ran", t.surface.Node))}
}

func (t *remoteAttempt) unknown(why string) surfaces.Outcome {
	return surfaces.Outcome{Result: surfaces.Failed(t.partial(), surfaces.CodeOutcomeUnknown, why)}
}

func (t *remoteAttempt) refusal(code surfaces.Code, message string) surfaces.Result {
	r := surfaces.Refusal{Code: code, Message: message}
	if code == surfaces.CodeOwnerUnreachable {
		r.RetryAfterS = 1
	}
	return r.Result(t.partial())
}

func (t *remoteAttempt) partial() surfaces.Partial {
	return surfaces.Partial{
		CallID: t.attempt.CallID, Node: t.surface.Node, At: t.attempt.Call.Coordinates(), Attempts: t.attempt.Number,
		DurationMS: surfaces.Milliseconds(time.Since(t.began)),
	}
}
