package peer

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/surfaces"
)

// methodHost is what the node that runs an attempt asks the node that holds its
// record: to do what only a host can. One stream serves an attempt.
const methodHost = "calls/host"

// hosted is the first message of such a stream.
type hosted struct {
	CallID string `json:"call_id"`
	Actor  string `json:"actor"`
	Number int    `json:"number"`
}

// asked is one use on its way to the host, and hostAnswer what comes back: use is the
// place of the use among those of its stream, from 0, because code may ask for two
// things under one sequence.
type asked struct {
	Seq  string          `json:"seq"`
	Name string          `json:"name"`
	Data json.RawMessage `json:"data,omitempty"`
	Left time.Duration   `json:"left_ns,omitempty"`
}

type hostAnswer struct {
	Use    int             `json:"use"`
	Answer json.RawMessage `json:"answer"`
}

// errNotHosted says that the host does not know the attempt, or not from here.
var errNotHosted = errors.New("peer: the call is over, or does not run here")

// farHost is the host of an attempt whose record another node holds. What was asked
// and not answered when the stream broke is asked again on the next one; the host
// knows it by its sequence.
type farHost struct {
	ctx     context.Context // of the attempt
	mesh    *mesh.Mesh
	home    string
	attempt hosted
	log     *slog.Logger
	news    chan struct{} // holds one token when something was asked

	mu       sync.Mutex
	open     []*pending // in the order in which the code asked
	ended    bool
	carrying sync.WaitGroup
	stop     context.CancelFunc // of the carrying; nil before the first use, for most code asks nothing
}

// pending is a use that has no answer yet.
type pending struct {
	asked
	answer chan json.RawMessage // holds the answer
	done   bool
}

var _ surfaces.Host = (*farHost)(nil)

// Ask hands a use on.
func (h *farHost) Ask(u surfaces.Use) func(context.Context) json.RawMessage {
	p := &pending{asked: asked{u.Seq, u.Name, u.Data, u.Left}, answer: make(chan json.RawMessage, 1)}
	h.mu.Lock()
	if h.ended {
		p.answer <- hostGone
	} else {
		h.open = append(h.open, p)
		h.begin()
	}
	h.mu.Unlock()
	select {
	case h.news <- struct{}{}:
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

// begin carries what is asked, from now on. h.mu is held.
func (h *farHost) begin() {
	if h.stop == nil {
		var ctx context.Context
		ctx, h.stop = context.WithCancel(h.ctx)
		h.carrying.Go(func() { h.run(ctx) })
	}
}

// close ends the carrying and waits for that. Who asks afterwards is told that the call
// has ended.
func (h *farHost) close() {
	h.mu.Lock()
	h.ended = true
	stop := h.stop
	h.mu.Unlock()
	if stop != nil {
		stop()
		h.carrying.Wait()
	}
}

// hostGone is the answer where the host knows the attempt no more.
var hostGone = json.RawMessage(`{"error":{"type":"ended","message":"the call has ended"}}`)

// run carries what is asked until ctx ends.
func (h *farHost) run(ctx context.Context) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		if !h.asks(ctx) {
			return
		}
		answered, err := h.carry(ctx)
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

// asks waits until something is to be asked; false when ctx ends first.
func (h *farHost) asks(ctx context.Context) bool {
	for {
		h.mu.Lock()
		some := len(h.open) > 0
		h.mu.Unlock()
		if some {
			return ctx.Err() == nil
		}
		select {
		case <-h.news:
		case <-ctx.Done():
			return false
		}
	}
}

// end answers everything that is asked and will be: nobody is there to do it.
func (h *farHost) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	for _, p := range h.open {
		p.answer <- hostGone
	}
	h.open = nil
}

// carry asks over one stream, until that breaks or ctx ends.
func (h *farHost) carry(ctx context.Context) (answered bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := h.mesh.Stream(ctx, h.home, methodHost)
	if err != nil {
		return false, err
	}
	var uses usesOf
	sending := make(chan error, 1)
	go func() {
		err := h.send(ctx, s, &uses)
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
		if p := uses.at(a.Use); p != nil {
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

// usesOf lists what was asked over one stream.
type usesOf struct {
	mu   sync.Mutex
	list []*pending
}

func (u *usesOf) add(p *pending) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list = append(u.list, p)
}

func (u *usesOf) at(i int) *pending {
	u.mu.Lock()
	defer u.mu.Unlock()
	if i < 0 || i >= len(u.list) {
		return nil
	}
	return u.list[i]
}

// send asks for what is open and for what comes, in order.
func (h *farHost) send(ctx context.Context, s *mesh.Stream, uses *usesOf) error {
	if err := sendJSON(s, h.attempt); err != nil {
		return err
	}
	asked := make(map[*pending]bool)
	for {
		h.mu.Lock()
		var fresh []*pending
		for i := len(h.open) - 1; i >= 0 && !asked[h.open[i]]; i-- {
			fresh = append(fresh, h.open[i]) // what was asked last stands last
		}
		h.mu.Unlock()
		for i := len(fresh) - 1; i >= 0; i-- {
			asked[fresh[i]] = true
			uses.add(fresh[i])
			if err := sendJSON(s, fresh[i].asked); err != nil {
				return err
			}
		}
		if len(fresh) > 0 {
			continue
		}
		select {
		case <-h.news:
		case <-ctx.Done():
			return nil
		}
	}
}

func (h *farHost) settle(p *pending, answer json.RawMessage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.done {
		return
	}
	p.done = true
	p.answer <- answer
	for i, o := range h.open {
		if o == p {
			h.open = append(h.open[:i], h.open[i+1:]...)
			return
		}
	}
}

// host serves what the code of an attempt asks whose record is here.
func (s *Server) host(ctx context.Context, st *mesh.Stream) error {
	var head hosted
	if err := receiveJSON(st, &head); err != nil {
		return err
	}
	host := s.cfg.Uses(st.Peer().ID, head.Actor, head.CallID)
	if host == nil {
		return &mesh.Error{Code: codeForgotten, Message: "there is no such call here, or it does not run on the node that asks"}
	}
	ctx, cancel := context.WithCancel(ctx)
	var waits sync.WaitGroup
	defer func() { cancel(); waits.Wait() }()
	var sending sync.Mutex
	for i := 0; ; i++ {
		var a asked
		if err := receiveJSON(st, &a); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		wait := host.Ask(surfaces.Use{CallID: head.CallID, Actor: head.Actor, Attempt: head.Number, Seq: a.Seq, Name: a.Name, Data: a.Data, Left: a.Left})
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
