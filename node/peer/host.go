package peer

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/surfaces"
)

// methodHost is called by the node that runs an attempt, on the call's home, which is the
// node that holds the record. It carries the uses of primitives of one attempt, which only
// the home can serve.
const methodHost = "calls/host"

// hostRequest is the first message of such a stream.
type hostRequest struct {
	CallID string `json:"call_id"`
	Actor  string `json:"actor"`
	// Number is that of the attempt.
	Number int `json:"number"`
}

// hostUse is a use of a primitive, and hostAnswer its answer. Use is the index of the use
// in its stream, from 0. The sequence is not enough to match them: code may use two
// primitives under one sequence.
type hostUse struct {
	// Seq numbers the uses of the attempt, in decimal.
	Seq  string `json:"seq"`
	Name string `json:"name"`
	// Data is the object of arguments.
	Data      json.RawMessage `json:"data,omitempty"`
	Remaining time.Duration   `json:"left_ns,omitempty"`
}

type hostAnswer struct {
	Use    int             `json:"use"`
	Answer json.RawMessage `json:"answer"`
}

// errNotHosted: the host does not know the attempt, or this node does not run it.
var errNotHosted = errors.New("peer: the call is over, or does not run here")

// remoteHost is the host of an attempt whose record another node holds. Uses that are
// unanswered when a stream breaks are sent again on the next one. The host recognises them
// by their sequence.
type remoteHost struct {
	ctx     context.Context // of the attempt
	mesh    *mesh.Mesh
	home    string // the node that holds the call's record
	attempt hostRequest
	log     *slog.Logger
	wake    chan struct{} // holds one token after a use was added

	mu      sync.Mutex
	open    []*pending // unanswered uses, in the order in which the code asked
	ended   bool       // no more uses are accepted
	running sync.WaitGroup
	stop    context.CancelFunc // ends run; nil before the first use, since most code uses no primitives
}

// pending is an unanswered use.
type pending struct {
	hostUse
	answer chan json.RawMessage // receives the answer
	sentOn *sentUses            // the stream on which it was sent last; guarded by the host's mu
}

var _ surfaces.Host = (*remoteHost)(nil)

// Ask queues a use, and returns a function that waits for the answer.
func (h *remoteHost) Ask(u surfaces.Use) func(context.Context) json.RawMessage {
	p := &pending{hostUse: hostUse{u.Seq, u.Name, u.Data, u.Remaining}, answer: make(chan json.RawMessage, 1)}
	h.mu.Lock()
	if h.ended {
		p.answer <- hostGone
	} else {
		h.open = append(h.open, p)
		h.begin()
	}
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
	return func(ctx context.Context) json.RawMessage {
		select {
		case a := <-p.answer:
			return a
		case <-ctx.Done():
			return nil
		}
	}
}

// begin starts run, unless it has started. h.mu is held.
func (h *remoteHost) begin() {
	if h.stop == nil {
		var ctx context.Context
		ctx, h.stop = context.WithCancel(h.ctx)
		h.running.Go(func() { h.run(ctx) })
	}
}

// close stops run and waits for its end. Later uses are answered with hostGone.
func (h *remoteHost) close() {
	h.mu.Lock()
	h.ended = true
	stop := h.stop
	h.mu.Unlock()
	if stop != nil {
		stop()
		h.running.Wait()
	}
}

// hostGone is the answer when the host does not know the attempt any more.
var hostGone = json.RawMessage(`{"error":{"type":"ended","message":"the call has ended"}}`)

// run exchanges uses and answers with the host until ctx ends.
func (h *remoteHost) run(ctx context.Context) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		if !h.waitForUse(ctx) {
			return
		}
		answered, err := h.exchange(ctx)
		var unreachable *mesh.UnreachableError
		switch {
		case ctx.Err() != nil:
			return
		case !errors.As(err, &unreachable):
			h.log.Warn("the host of a call does not serve it", "call_id", h.attempt.CallID, "host", h.home, "error", err)
			h.end()
			return
		case answered:
			pause = firstPause
		}
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// waitForUse waits until there is an unanswered use. It returns false if ctx ends first.
func (h *remoteHost) waitForUse(ctx context.Context) bool {
	for {
		h.mu.Lock()
		some := len(h.open) > 0
		h.mu.Unlock()
		if some {
			return ctx.Err() == nil
		}
		select {
		case <-h.wake:
		case <-ctx.Done():
			return false
		}
	}
}

// end answers all pending and future uses with hostGone.
func (h *remoteHost) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	for _, p := range h.open {
		p.answer <- hostGone
	}
	h.open = nil
}

// exchange sends uses and receives answers over one stream, until that breaks or ctx ends.
func (h *remoteHost) exchange(ctx context.Context) (answered bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := h.mesh.Stream(ctx, h.home, methodHost)
	if err != nil {
		return false, err
	}
	uses := new(sentUses)
	sending := make(chan error, 1)
	go func() {
		err := h.send(ctx, s, uses)
		if err != nil {
			s.Cancel()
		}
		sending <- err
	}()
	for {
		var a hostAnswer
		if err = receiveJSON(s, &a); err != nil {
			break
		}
		if p := uses.take(a.Use); p != nil {
			h.settle(p, a.Answer)
			answered = true
		}
	}
	s.Cancel()
	cancel()
	if sent := <-sending; errors.Is(err, io.EOF) && sent != nil {
		err = sent
	}
	if errors.Is(err, io.EOF) {
		err = errNotHosted
	}
	return answered, err
}

// sentUses lists the uses that were sent on one stream. It drops a use once it is answered,
// because a stream may carry a million of them.
type sentUses struct {
	mu   sync.Mutex
	list []*pending // nil for those that are answered
}

func (u *sentUses) add(p *pending) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list = append(u.list, p)
}

// take returns the use with an index, and drops it; nil if it was not sent, or is answered.
func (u *sentUses) take(i int) *pending {
	u.mu.Lock()
	defer u.mu.Unlock()
	if i < 0 || i >= len(u.list) {
		return nil
	}
	p := u.list[i]
	u.list[i] = nil
	return p
}

// send sends the unanswered uses and then new ones, in order.
func (h *remoteHost) send(ctx context.Context, s *mesh.Stream, uses *sentUses) error {
	if err := sendJSON(s, h.attempt); err != nil {
		return err
	}
	for {
		fresh := h.unsent(uses)
		for _, p := range fresh {
			uses.add(p)
			if err := sendJSON(s, p.hostUse); err != nil {
				return err
			}
		}
		if len(fresh) > 0 {
			continue
		}
		select {
		case <-h.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// unsent returns the unanswered uses that were not sent on a stream yet, in order, and
// records that they are sent on it.
func (h *remoteHost) unsent(on *sentUses) []*pending {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := len(h.open)
	for first > 0 && h.open[first-1].sentOn != on {
		first--
		h.open[first].sentOn = on
	}
	return slices.Clone(h.open[first:])
}

// settle delivers the answer to a use.
func (h *remoteHost) settle(p *pending, answer json.RawMessage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p.answer <- answer
	if i := slices.Index(h.open, p); i >= 0 {
		h.open = slices.Delete(h.open, i, i+1)
	}
}

// host serves the uses of an attempt that another node runs and whose record is here.
func (s *Server) host(ctx context.Context, st *mesh.Stream) error {
	var head hostRequest
	if err := receiveJSON(st, &head); err != nil {
		return err
	}
	host := s.cfg.HostOf(st.Peer().ID, head.Actor, head.CallID)
	if host == nil {
		return &mesh.Error{Code: codeForgotten, Message: "there is no such call here, or it does not run on the node that asks"}
	}
	ctx, cancel := context.WithCancel(ctx)
	var waits sync.WaitGroup
	defer func() { cancel(); waits.Wait() }()
	var sending sync.Mutex
	for i := 0; ; i++ {
		var a hostUse
		if err := receiveJSON(st, &a); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		wait := host.Ask(surfaces.Use{CallID: head.CallID, Actor: head.Actor, Attempt: head.Number, Seq: a.Seq, Name: a.Name, Data: a.Data, Remaining: a.Remaining})
		waits.Go(func() {
			answer := wait(ctx)
			if answer == nil {
				return
			}
			sending.Lock()
			defer sending.Unlock()
			if err := sendJSON(st, hostAnswer{Use: i, Answer: answer}); err != nil {
				s.cfg.Log.Debug("the answer to a use did not reach its node", "call_id", head.CallID, "error", err)
			}
		})
	}
}
