package node

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/locusrun/locus/node/peer"
	"github.com/locusrun/locus/surfaces"
)

// stop stops a call and those that its code has made, wherever they run. It does not wait.
func (n *Node) stop(callID string) {
	if n.link.InFlight(callID) {
		n.link.Stop(callID)
	} else if n.engine.Running(callID) != nil {
		n.stopHere(callID)
	} else if to, ok := n.routes.get(callID); ok {
		n.work.Go(func() { n.stopThere(callID, to) })
	}
	if r := n.calls.Find(callID); r != nil {
		n.stopChildren(r)
	}
}

func (n *Node) stopHere(callID string) {
	if run := n.engine.Running(callID); run != nil {
		run.Stop()
	}
}

// stopThere stops a call that runs on another node. If that node cannot be reached, the
// attempt is given up.
func (n *Node) stopThere(callID string, to route) {
	ctx, cancel := context.WithTimeout(n.ctx, othersTimeout)
	defer cancel()
	actor := ""
	if r := n.calls.Find(callID); r != nil {
		actor = r.Actor
	}
	_, err := peer.CallJSON[json.RawMessage](ctx, n.mesh, to.node, methodSteer, steerAsk{Actor: actor, CallID: callID, Action: "stop"})
	var refusal *surfaces.Refusal
	if err != nil && !errors.As(err, &refusal) {
		to.cancel(errStopped)
	}
}

var errStopped = errors.New("the call was stopped")
