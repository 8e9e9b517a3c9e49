package agentlink

import (
	"context"
	"errors"
	"io"

	"github.com/locusrun/locus/mesh"
)

// call serves a machine's stream of a call: directly if this node is the call's home,
// otherwise by relaying it to the home.
func (h *Hub) call(ctx context.Context, s *mesh.Stream) error {
	var c claim
	if err := receiveFirst(s, maxFirst, &c); err != nil {
		return err
	}
	if err := h.cfg.AwaitReady(ctx); err != nil {
		return err
	}
	switch {
	case c.Home == h.cfg.Node:
		return h.serveCall(ctx, s, s.Peer().ID, c)
	case h.cfg.Directory.Gone(c.Home):
		return errForgotten
	}
	return h.relay(ctx, s, c)
}

var errForgotten = &mesh.Error{Code: codeForgotten, Message: "the call's home no longer waits for it"}

// relay copies frames between a machine and a call's home, without parsing them.
func (h *Hub) relay(ctx context.Context, from *mesh.Stream, c claim) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	to, err := h.cfg.Mesh().Stream(ctx, c.Home, methodRelay)
	if err != nil {
		return unreached(err)
	}
	defer to.Cancel()
	if err := sendJSON(to, relayHeader{Machine: from.Peer().ID, Claim: c}); err != nil {
		return unreached(err)
	}
	go func() { // ends with the machine's stream, which ends with this handler
		for {
			frame, err := from.Receive()
			if errors.Is(err, io.EOF) {
				_ = to.CloseSend() // errors appear in the other direction
				return
			}
			if err == nil {
				err = to.Send(frame)
			}
			if err != nil {
				cancel() // one side is gone
				return
			}
		}
	}()
	for {
		frame, err := to.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return unreached(err)
		}
		if err := from.Send(frame); err != nil {
			return err
		}
	}
}

// unreached returns the error for a machine whose call's home cannot be reached. An error
// of the home itself is passed on.
func unreached(err error) error {
	var e *mesh.Error
	if errors.As(err, &e) {
		return e
	}
	return &mesh.Error{Code: codeLater, Message: "the call's home cannot be reached now"}
}

func (h *Hub) serveRelay(ctx context.Context, s *mesh.Stream) error {
	var r relayHeader
	if err := receiveFirst(s, maxSmall, &r); err != nil {
		return err
	}
	return h.serveCall(ctx, s, r.Machine, r.Claim)
}
