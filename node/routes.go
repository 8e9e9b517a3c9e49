package node

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/locusrun/locus/node/peer"
	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
	"github.com/locusrun/locus/surfaces/tracing"
)

// routes maps the calls with records here to the other nodes that run them.
type routes struct {
	mu    sync.Mutex
	calls map[string]route
}

type route struct {
	node   string
	cancel context.CancelCauseFunc // gives up the attempt
}

func (r *routes) set(callID string, to route) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == nil {
		r.calls = make(map[string]route)
	}
	r.calls[callID] = to
}

func (r *routes) drop(callID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.calls, callID)
}

// get returns where a call runs; false if it runs here or nowhere.
func (r *routes) get(callID string) (route, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	to, ok := r.calls[callID]
	return to, ok
}

// surfaceOf returns the surface that runs calls on a node in one of its lives.
func (n *Node) surfaceOf(id registry.NodeID, life registry.Incarnation) surfaces.Surface {
	switch {
	case id != n.id:
		return &remoteSurface{node: n, to: peer.Surface{
			Mesh: n.mesh, Node: string(id), Incarnation: uint64(life),
			Fate: func(a surfaces.Attempt) peer.Fate { return n.fate(id, life, a) },
			Suspended: func() bool {
				node, ok := n.registry.View().Node(id)
				return ok && node.State != registry.NodeUp
			},
			Log: n.cfg.Log,
		}}
	case life != n.life():
		return staleSurface{}
	}
	return n.engine
}

// staleSurface is the surface for a life of this node that has ended or not begun.
type staleSurface struct{}

func (staleSurface) Execute(context.Context, surfaces.Attempt) surfaces.Outcome {
	return surfaces.Outcome{Misrouted: true}
}

// remoteSurface runs attempts on another node. Its route is recorded so that they can be
// steered.
type remoteSurface struct {
	node *Node
	to   peer.Surface
}

func (e *remoteSurface) Execute(ctx context.Context, a surfaces.Attempt) surfaces.Outcome {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	e.node.routes.set(a.CallID, route{e.to.Node, cancel})
	defer e.node.routes.drop(a.CallID)
	ctx, span := tracing.Start(ctx, tracing.Route, trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	return e.to.Execute(ctx, a)
}

// fate reports from the registry that another node's life has ended. While the node lives,
// it reports lost sessions itself.
func (n *Node) fate(id registry.NodeID, life registry.Incarnation, a surfaces.Attempt) peer.Fate {
	return func() (*surfaces.LostAttempt, <-chan struct{}) {
		view := n.registry.View()
		reason := registry.LossReason("")
		switch node, ok := view.Node(id); {
		case !ok:
			reason = registry.LossNodeRemoved
		case node.Incarnation != life:
			reason = registry.LossNodeRestarted
		case node.State == registry.NodeExpired:
			reason = registry.LossNodeExpired
		default:
			return nil, view.Changed()
		}
		loss := &surfaces.LostAttempt{Reason: string(reason), At: time.Now()}
		if ref := a.Call.Session; ref != nil {
			loss.Epoch = ref.Epoch
			if s, ok := view.Session(ref.Key); ok && uint64(s.Loss.Epoch) == ref.Epoch {
				loss.Reason, loss.At = string(s.Loss.Reason), s.Loss.At.Time()
			}
		}
		return loss, view.Changed()
	}
}

// ownsRoute reports whether a route leads to this node. If the route is newer than this node's
// view, the view is refreshed first.
func (n *Node) ownsRoute(ctx context.Context, r peer.Route) bool {
	if n.awaitRegistry(ctx) != nil || r.Incarnation != uint64(n.life()) {
		return false
	}
	if r.Session == nil {
		return true
	}
	owns := func(view registry.View) (owns, behind bool) {
		s, ok := view.Session(r.Session.Key)
		if !ok || uint64(s.Epoch) < r.Session.Epoch {
			return false, true
		}
		return s.State != registry.SessionLost && s.Owner == n.id && s.Incarnation == n.life() && uint64(s.Epoch) == r.Session.Epoch, false
	}
	ok, behind := owns(n.registry.View())
	if !behind {
		return ok
	}
	view, err := n.registry.Fresh(ctx)
	if err != nil {
		n.cfg.Log.Warn("a call for a session that is not known here could not be looked up", "error", err)
		return false
	}
	ok, _ = owns(view)
	return ok
}
