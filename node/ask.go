package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/peer"
	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// othersTimeout bounds a question to all other nodes. The answers of slower nodes are left
// out.
const othersTimeout = 2 * time.Second

// ownerWithin bounds the wait for the node that holds a session or a call. The longest that
// it may take is to start a process and to copy another.
const ownerWithin = startLimit + kernel.CopyLimit

// askOwner asks the node that holds a session or a call. It waits for ownerWithin, and for
// more where the question itself runs code. If that node cannot be reached, or does not
// answer in time, the error is a *surfaces.Refusal.
func askOwner[A, Q any](ctx context.Context, n *Node, more time.Duration, owner registry.NodeID, method string, q Q) (A, error) {
	ctx, cancel := context.WithTimeout(ctx, ownerWithin+more)
	defer cancel()
	a, err := peer.CallJSON[A](ctx, n.mesh, string(owner), method, q)
	var unreachable *mesh.UnreachableError
	if errors.As(err, &unreachable) {
		n.cfg.Log.Info("the node that holds what was asked for did not answer", "node", owner, "method", method, "error", err)
		refusal := &surfaces.Refusal{
			Code: surfaces.CodeOwnerUnreachable, RetryAfterS: 1,
			Message: fmt.Sprintf("node %s, which holds what was asked for, does not answer: %s", owner, unreachableReason(err)),
		}
		if unreachable.Sent {
			refusal.Message += "; it may have done what was asked"
		}
		return a, refusal
	}
	if err != nil {
		return a, n.fault(err)
	}
	return a, nil
}

// askAdmission asks the known nodes, one after another, to admit this node to the registry. Each
// round starts with the next node, because one that is connected but does not answer uses up
// the time of a whole round.
func (n *Node) askAdmission(ctx context.Context, round int) error {
	var failures error
	known := n.member.Nodes()
	for i := range known {
		other := known[(round+i)%len(known)]
		if other.ID == string(n.id) {
			continue
		}
		_, err := peer.CallJSON[nothing](ctx, n.mesh, other.ID, methodAdmit, nothing{})
		if err == nil {
			return nil
		}
		failures = errors.Join(failures, err)
	}
	if failures == nil {
		return errors.New("no other node is known")
	}
	return failures
}

// others lists the other nodes that are not expired.
func (n *Node) others() []registry.NodeID {
	var ids []registry.NodeID
	for _, node := range n.registry.View().Nodes() {
		if node.ID != n.id && node.State != registry.NodeExpired {
			ids = append(ids, node.ID)
		}
	}
	return ids
}

// askOthers asks all other nodes concurrently and returns the answers that came within
// othersTimeout.
func askOthers[A, Q any](ctx context.Context, n *Node, method string, q Q) map[registry.NodeID]A {
	answers, _ := askEach[A](ctx, n, othersTimeout, n.others(), method, q)
	return answers
}

// askEach asks nodes concurrently. It returns the answers that came in time, and the errors
// of the other nodes.
func askEach[A, Q any](ctx context.Context, n *Node, within time.Duration, nodes []registry.NodeID, method string, q Q) (map[registry.NodeID]A, map[registry.NodeID]error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var mu sync.Mutex
	answers, silent := make(map[registry.NodeID]A), make(map[registry.NodeID]error)
	var all sync.WaitGroup
	for _, id := range nodes {
		all.Go(func() {
			a, err := peer.CallJSON[A](ctx, n.mesh, string(id), method, q)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				n.cfg.Log.Debug("a node did not answer", "node", id, "method", method, "error", err)
				silent[id] = err
				return
			}
			answers[id] = a
		})
	}
	all.Wait()
	return answers, silent
}

// nodeFailures lists for the caller which nodes did not answer, and why.
func nodeFailures(silent map[registry.NodeID]error) []gateway.NodeFailure {
	var list []gateway.NodeFailure
	for _, id := range slices.Sorted(maps.Keys(silent)) {
		list = append(list, gateway.NodeFailure{Node: string(id), Error: unreachableReason(silent[id])})
	}
	return list
}

// unreachableReason is the text for the caller on why a node did not answer and what to do. The
// error itself goes to the log.
func unreachableReason(err error) string {
	var refusal *surfaces.Refusal
	var unreachable *mesh.UnreachableError
	switch {
	case errors.As(err, &refusal):
		return refusal.Message
	case errors.Is(err, context.DeadlineExceeded):
		return "it has not answered in time; try again, or see with locus nodes how it does"
	case errors.Is(err, mesh.ErrDraining):
		return "it is shutting down; try again when it is back"
	case errors.Is(err, mesh.ErrBusy), errors.Is(err, mesh.ErrStalled):
		return "it is busy; try again"
	case errors.Is(err, mesh.ErrUnknownMethod), errors.Is(err, mesh.ErrVersion):
		return "its release of locus does not know the question; run the same release on all nodes"
	case errors.Is(err, mesh.ErrRejected), errors.Is(err, mesh.ErrRevoked), errors.Is(err, mesh.ErrForbidden):
		return "it and this node do not take each other for members of the mesh; the logs of both say why"
	case errors.As(err, &unreachable) && unreachable.Sent:
		return "the connection to it broke; try again"
	case errors.As(err, &unreachable):
		return "it cannot be reached; see with locus nodes whether it is up, and that UDP gets through to it"
	}
	return "it failed to answer; its log says why"
}
