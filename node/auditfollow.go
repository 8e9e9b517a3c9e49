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

// auditReader is one reader that follows the audit logs of all nodes. Its methods are safe
// for concurrent use.
type auditReader struct {
	query gateway.AuditQuery
	began time.Time
	emit  func(gateway.AuditItem) error
	end   context.CancelCauseFunc

	mu      sync.Mutex
	at      gateway.Cursor  // position in the log of each node; a node that is missing was not read
	failing map[string]bool // nodes that do not answer, and the reader was told so
}

// FollowAudit streams the matching entries of the audit logs, then new ones. If the query
// has a position, the stream starts after it.
func (n *Node) FollowAudit(who gateway.Caller, q gateway.AuditQuery) (gateway.Stream[gateway.AuditItem], error) {
	if _, _, err := n.authorizeAudit(who, &q); err != nil {
		return nil, err
	}
	return func(ctx context.Context, emit func(gateway.AuditItem) error) error {
		return n.followAudit(ctx, who, q, emit)
	}, nil
}

// followAudit is the stream of FollowAudit, for a query that was checked.
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
	n.forEachOther(ctx, &all, func(ctx context.Context, id registry.NodeID) error {
		if !wanted(id) {
			<-ctx.Done()
			return nil
		}
		err := streamOf(ctx, n.mesh, id, methodAuditFollow, r.ask(string(id)), r.entry)
		if err != nil && ctx.Err() == nil {
			_ = r.failure(gateway.NodeFailure{Node: string(id), Error: unreachableReason(err)}) // if that fails, r.tell has cancelled ctx
		}
		return err
	})
	return context.Cause(ctx)
}

// pages emits the entries that exist already, and the nodes that did not answer. The id of
// each entry is a position from which all later entries, of any node, can be read.
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
	return r.tell(gateway.AuditItem{}) // sends the position, also if there was no entry
}

// ask builds the question to one node: the entries after the last one received or, if the
// node's past entries could not be read, those added since this reader began.
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

// entry emits one entry.
func (r *auditReader) entry(e audit.Entry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at[e.Node], r.failing[e.Node] = gateway.Position{Seq: int64(e.Seq)}, false
	return r.tell(gateway.AuditItem{Entry: &e})
}

// failure emits that a node does not answer, once until it answers again.
func (r *auditReader) failure(f gateway.NodeFailure) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failing[f.Node] {
		return nil
	}
	r.failing[f.Node] = true
	return r.tell(gateway.AuditItem{Failure: &f})
}

// tell emits an item with the position after it. r.mu is held, or no other goroutine uses r
// yet.
func (r *auditReader) tell(item gateway.AuditItem) error {
	item.ID = r.at.String()
	err := r.emit(item)
	if err != nil {
		r.end(err)
	}
	return err
}
