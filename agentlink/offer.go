package agentlink

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/locusrun/locus/mesh"
)

const (
	// inlineProgram is the largest program, in bytes of code and input, that is sent with
	// its offer.
	inlineProgram = 32 << 10
	// offerWithin bounds the request to the node that holds the machine's connection.
	offerWithin = 3 * time.Second
	// movedWithin is how long a node that a machine has left has to answer an offer.
	movedWithin = 200 * time.Millisecond
	// maxLooks bounds the nodes at which an offer looks for a machine that moves.
	maxLooks = 4
)

// offer offers the call to the machine, wherever it is connected.
func (f *hubCall) offer(ctx context.Context) (offerReply, error) {
	ctx, cancel := context.WithTimeout(ctx, leftOf(f.attempt.Limit()-time.Since(f.began)))
	defer cancel()
	call := &f.attempt.Call
	for look, before := 1, ""; ; look++ {
		changed := f.hub.cfg.Directory.Changed()
		m, ok := f.find()
		if !ok {
			return offerReply{}, nil
		}
		f.offeredAt = m.Node
		o := offer{CallID: f.attempt.CallID, Home: f.hub.cfg.Node}
		p := f.program() // with the time that remains now
		if len(call.Files) == 0 && len(call.Code)+len(call.Stdin) <= inlineProgram && p.Timeout > shortCall {
			o.Program = p
		}
		there, leave := context.WithCancel(ctx)
		go f.endWhenMoved(there, leave, m.Node, changed) // ends with there
		said, err := f.hub.offerAt(there, m, o)
		leave()
		if err == nil && (said.Sent || said.Busy) || look > 1 && m.Node == before || look == maxLooks {
			return said, err
		}
		if err := f.refresh(ctx); err != nil {
			return said, err
		}
		before = m.Node
	}
}

// find looks the call's machine up in the directory.
func (f *hubCall) find() (Machine, bool) {
	m, ok := f.hub.cfg.Directory.Find(f.attempt.Call.Actor, f.machine.Place, f.machine.Name)
	return m, ok && m.ID == f.machine.ID
}

// endWhenMoved calls end soon after the directory no longer shows the machine at a node. One
// that is silent is not waited for then; others know it too, and say that they have sent
// nothing.
func (f *hubCall) endWhenMoved(ctx context.Context, end func(), node string, changed <-chan struct{}) {
	var moved <-chan time.Time
	for {
		select {
		case <-changed:
			changed = f.hub.cfg.Directory.Changed() // before the look, so that no change is missed
			if m, ok := f.find(); moved == nil && !(ok && m.Node == node) {
				moved = time.After(movedWithin)
			}
		case <-moved:
			end()
			return
		case <-ctx.Done():
			return
		}
	}
}

// refresh brings the directory up to date. It does not wait until a registry without a leader
// has one: meanwhile the machine may connect to this node, which the next offer finds out.
func (f *hubCall) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, offerEvery)
	defer cancel()
	return f.hub.cfg.Directory.Sync(ctx)
}

// program returns what the machine is to run, with the remaining time until the deadline.
func (f *hubCall) program() *program {
	call := &f.attempt.Call
	return &program{
		Actor: call.Actor, Thought: call.Thought, Language: call.Language, Code: call.Code, Stdin: call.Stdin,
		Timeout: leftOf(f.attempt.Limit() - time.Since(f.began)), Whole: call.Timeout, Files: call.Files, Primitives: f.attempt.Host != nil,
	}
}

// leftOf returns a positive timeout: a program without one would get the default.
func leftOf(d time.Duration) time.Duration { return max(d, time.Millisecond) }

// offerAt offers a call to a machine at the node where m says it is connected.
func (h *Hub) offerAt(ctx context.Context, m Machine, o offer) (offerReply, error) {
	if m.Node == h.cfg.Node || m.Node == "" {
		return h.offerHere(ctx, m.ID, o), nil
	}
	// A machine that connected here a moment ago may not be in the directory yet.
	if said := h.offerUnreported(m.ID, o); said.Sent || said.Busy {
		return said, nil
	}
	ctx, cancel := context.WithTimeout(ctx, h.offerWithin)
	defer cancel()
	said, err := h.offerRemote(ctx, m.Node, offerRequest{Machine: m.ID, Offer: o})
	var unreachable *mesh.UnreachableError
	if errors.As(err, &unreachable) && unreachable.Sent {
		return offerReply{Sent: true}, nil // it may have been sent
	}
	return said, err
}

// offerUnreported offers a call to a machine that has connected here and is not in the
// directory yet.
func (h *Hub) offerUnreported(machine string, o offer) offerReply {
	h.mu.Lock()
	at := h.attached[machine]
	fresh := at != nil && !at.reported
	h.mu.Unlock()
	if !fresh {
		return offerReply{}
	}
	return h.offerLocal(machine, o)
}

// offerLocal offers a call to a machine that is connected to this node.
func (h *Hub) offerLocal(machine string, o offer) offerReply {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.attached[machine]
	switch {
	case at == nil:
		return offerReply{}
	case at.offers[o.CallID]:
		return offerReply{Sent: true} // the earlier offer is queued or sent
	case len(at.offers) >= rememberedOffers:
		clear(at.offers) // safe: the machine recognises repeated offers
	}
	select {
	case at.queue <- o:
		at.offers[o.CallID] = true
		return offerReply{Sent: true}
	default:
		return offerReply{Busy: true}
	}
}

// serveOffer offers a call of another node to a machine that is connected here.
func (h *Hub) serveOffer(ctx context.Context, s *mesh.Stream) error {
	var q offerRequest
	if err := receiveFirst(s, maxSmall, &q); err != nil {
		return err
	}
	if err := h.cfg.AwaitReady(ctx); err != nil {
		return err
	}
	return sendJSON(s, h.offerHere(ctx, q.Machine, q.Offer))
}

// offerRemote asks another node to offer a call to a machine that is connected there.
func (h *Hub) offerRemote(ctx context.Context, node string, o offerRequest) (said offerReply, err error) {
	s, err := h.cfg.Mesh().Stream(ctx, node, methodOffer)
	if err != nil {
		return said, err
	}
	defer s.Cancel()
	if err := sendJSON(s, o); err != nil && !errors.Is(err, io.EOF) { // EOF: the reply has come already
		return said, err
	}
	err = receiveJSON(s, maxSmall, &said)
	return said, err
}
