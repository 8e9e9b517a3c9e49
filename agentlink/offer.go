package agentlink

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/locusrun/locus/mesh"
)

const (
	// inlineProgram is the longest program, in bytes of code and input, that goes with
	// its offer.
	inlineProgram = 32 << 10
	// offerWithin bounds the question to the node that holds the machine.
	offerWithin = 3 * time.Second
)

// offer puts the call before the machine, wherever its connection is.
func (f *hubCall) offer(ctx context.Context) (offerReply, error) {
	o := offer{CallID: f.attempt.CallID, Home: f.hub.cfg.Node}
	call := &f.attempt.Call
	p := f.program()
	if len(call.Files) == 0 && len(call.Code)+len(call.Stdin) <= inlineProgram && p.Timeout > shortCall {
		o.Program = p
	}
	directory := f.hub.cfg.Directory
	for look := 0; ; look++ {
		m, ok := directory.Find(call.Actor, f.machine.Place, f.machine.Name)
		if !ok {
			return offerReply{}, nil
		}
		said, err := f.hub.offerAt(ctx, m, o)
		if err == nil && (said.Sent || said.Busy) || look > 0 {
			return said, err
		}
		if err := directory.Fresh(ctx); err != nil {
			return said, err
		}
	}
}

// program is what the machine is to run, with what is left of its deadline.
func (f *hubCall) program() *program {
	call := &f.attempt.Call
	return &program{
		Actor: call.Actor, Thought: call.Thought, Language: call.Language, Code: call.Code, Stdin: call.Stdin,
		Timeout: leftOf(f.attempt.Limit() - time.Since(f.began)), Whole: call.Timeout, Files: call.Files, Primitives: f.attempt.Host != nil,
	}
}

// leftOf gives a timeout that is one: a program without any gets the default.
func leftOf(d time.Duration) time.Duration { return max(d, time.Millisecond) }

// offerAt puts a call before a machine that is connected where m says, as far as is known.
func (h *Hub) offerAt(ctx context.Context, m Machine, o offer) (offerReply, error) {
	if m.Node == h.cfg.Node || m.Node == "" {
		return h.offerLocal(m.ID, o), nil
	}
	// What came here a moment ago is not in the directory yet.
	if said := h.offerUnreported(m.ID, o); said.Sent || said.Busy {
		return said, nil
	}
	ctx, cancel := context.WithTimeout(ctx, offerWithin)
	defer cancel()
	said, err := h.offerRemote(ctx, m.Node, offerRequest{Machine: m.ID, Offer: o})
	var unreachable *mesh.UnreachableError
	if errors.As(err, &unreachable) && unreachable.Sent {
		return offerReply{Sent: true}, nil // it may have gone out
	}
	return said, err
}

// offerUnreported puts a call before a machine that has come here since the directory was
// told last.
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

// offer puts a call before a machine whose connection is here.
func (h *Hub) offerLocal(machine string, o offer) offerReply {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.attached[machine]
	switch {
	case at == nil:
		return offerReply{}
	case at.offers[o.CallID]:
		return offerReply{Sent: true} // what is asked again is surely on its way
	case len(at.offers) >= rememberedOffers:
		clear(at.offers) // the machine remembers too
	}
	select {
	case at.queue <- o:
		at.offers[o.CallID] = true
		return offerReply{Sent: true}
	default:
		return offerReply{Busy: true}
	}
}

// serveOffer puts a call of another node's before a machine whose connection is here.
func (h *Hub) serveOffer(ctx context.Context, s *mesh.Stream) error {
	var q offerRequest
	if err := receiveFirst(s, maxSmall, &q); err != nil {
		return err
	}
	if err := h.cfg.Ready(ctx); err != nil {
		return err
	}
	return sendJSON(s, h.offerLocal(q.Machine, q.Offer))
}

// offerRemote has another node put a call before a machine.
func (h *Hub) offerRemote(ctx context.Context, node string, o offerRequest) (said offerReply, err error) {
	s, err := h.cfg.Mesh().Stream(ctx, node, methodOffer)
	if err != nil {
		return said, err
	}
	defer s.Cancel()
	if err := sendJSON(s, o); err != nil && !errors.Is(err, io.EOF) { // EOF: the answer is there already
		return said, err
	}
	err = receiveJSON(s, maxSmall, &said)
	return said, err
}
