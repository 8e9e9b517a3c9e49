package node

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/locusrun/locus/node/audit"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/registry"
)

// auditReader is one reader of the audit logs of all nodes. Its methods may be called at
// the same time.
type auditReader struct {
	query gateway.AuditQuery
	began time.Time
	emit  func(gateway.AuditItem) error
	end   context.CancelCauseFunc

	mu      sync.Mutex
	at      gateway.Cursor  // how far the log of each node was told; of one that is not in it, nothing
	failing map[string]bool // nodes that are not heard from, and it was told
}

// FollowAudit gives the stream of entries of the audit logs, and then of what is added to
// them. Where the query says after which entries, it begins with what was added since.
func (n *Node) FollowAudit(who gateway.Caller, q gateway.AuditQuery) (gateway.Stream[gateway.AuditItem], error) {
	if _, _, err := n.auditable(who, &q); err != nil {
		return nil, err
	}
	return func(ctx context.Context, emit func(gateway.AuditItem) error) error {
		return n.followAudit(ctx, who, q, emit)
	}, nil
}

// followAudit is the stream of a query that was judged.
func (n *Node) followAudit(ctx context.Context, who gateway.Caller, q gateway.AuditQuery, emit func(gateway.AuditItem) error) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	r := &auditReader{query: q, began: time.Now(), emit: emit, end: end, at: maps.Clone(q.After), failing: map[string]bool{}}
	if q.After == nil {
		list, through, err := n.auditPages(ctx, who, &r.query)
		if err != nil {
			return err
		}
		if err := r.pages(list, through); err != nil {
			return err
		}
	}
	var all sync.WaitGroup
	defer all.Wait()
	defer end(nil)
	wanted := func(id registry.NodeID) bool { return q.Node == "" || q.Node == string(id) }
	if wanted(n.id) {
		ask := r.ask(string(n.id))
		all.Go(func() { end(n.audit.Follow(ctx, ask.Filter, ask.After, r.entry)) })
	}
	n.withOthers(ctx, &all, func(ctx context.Context, id registry.NodeID) error {
		if !wanted(id) {
			<-ctx.Done()
			return nil
		}
		err := streamOf(ctx, n.mesh, id, methodAuditFollow, r.ask(string(id)), r.entry)
		if err != nil && ctx.Err() == nil {
			_ = r.failure(gateway.NodeFailure{Node: string(id), Error: silence(err)}) // it has cancelled ctx, if so
		}
		return err
	})
	return context.Cause(ctx)
}

// pages emits the entries that are there already, and the nodes that cannot be asked for
// theirs. The id of each entry leads back to all that come after it, of whatever node.
func (r *auditReader) pages(list gateway.AuditList, through map[registry.NodeID]uint64) error {
	looked := gateway.Cursor{}
	for id, seq := range through {
		looked[string(id)] = gateway.Position{Seq: int64(seq)}
	}
	r.at = maps.Clone(looked)
	for i := len(list.Entries) - 1; i >= 0; i-- {
		e := list.Entries[i]
		r.at[e.Node] = gateway.Position{Seq: int64(e.Seq) - 1}
	}
	for _, e := range list.Entries {
		if err := r.entry(e); err != nil {
			return err
		}
	}
	r.at = looked
	for _, f := range list.Failures {
		if err := r.failure(f); err != nil {
			return err
		}
	}
	return r.tell(gateway.AuditItem{}) // from here on it goes on, also where nothing is there
}

// ask says what is still wanted of a node: what comes after what it has told, or, where it
// could not be asked for what was before, what is added from now on.
func (r *auditReader) ask(node string) auditFollowAsk {
	r.mu.Lock()
	defer r.mu.Unlock()
	ask := auditFollowAsk{Filter: r.query.Filter}
	if at, known := r.at[node]; known {
		ask.After = uint64(at.Seq)
	} else if ask.Filter.From.Before(r.began) {
		ask.Filter.From = r.began
	}
	return ask
}

// entry tells one entry.
func (r *auditReader) entry(e audit.Entry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at[e.Node], r.failing[e.Node] = gateway.Position{Seq: int64(e.Seq)}, false
	return r.tell(gateway.AuditItem{Entry: &e})
}

// failure tells that a node is not heard from, once until it is again.
func (r *auditReader) failure(f gateway.NodeFailure) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failing[f.Node] {
		return nil
	}
	r.failing[f.Node] = true
	return r.tell(gateway.AuditItem{Failure: &f})
}

// tell emits an item with where the stream is then. r.mu is held, or nobody else is there
// yet.
func (r *auditReader) tell(item gateway.AuditItem) error {
	item.ID = r.at.String()
	err := r.emit(item)
	if err != nil {
		r.end(err)
	}
	return err
}
