package node

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/node/audit"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/registry"
)

// How long other nodes may take to search their logs, and to verify them.
const (
	auditReadLimit = 20 * time.Second
	auditWalkLimit = 100 * time.Second
)

type (
	// auditFollowAsk asks for the matching entries after a number.
	auditFollowAsk struct {
		Filter audit.Filter `json:"filter"`
		After  uint64       `json:"after"`
	}
	// witnessedAsk asks which heads of a node's log this node has recorded.
	witnessedAsk struct {
		Node string `json:"node"`
	}
	// auditVerifyAsk asks a node to verify its log, which must contain the given heads.
	auditVerifyAsk struct {
		Seen []audit.Head `json:"seen"`
	}
)

// authorizeAudit checks a query and returns the nodes to ask. A caller who is no operator sees
// only its own entries.
func (n *Node) authorizeAudit(who gateway.Caller, q *gateway.AuditQuery) (here bool, others []registry.NodeID, err error) {
	if !who.Operator {
		if q.Actor != "" && q.Actor != who.Actor {
			return false, nil, requireOperator(who)
		}
		q.Actor = who.Actor
	}
	if q.Kind != "" && !slices.Contains(audit.Kinds(), q.Kind) {
		return false, nil, invalidArgument("Set what to one of the kinds that docs/security.md lists, or leave it out.", "nothing is logged as %.80q", q.Kind)
	}
	return n.auditTargets(q.Node)
}

// auditTargets returns the nodes that a name stands for; an empty name stands for all.
func (n *Node) auditTargets(name string) (here bool, others []registry.NodeID, err error) {
	if name != "" {
		id := registry.NodeID(name)
		if _, ok := n.registry.View().Node(id); !ok {
			return false, nil, notFound("node", name)
		}
		if id == n.id {
			return true, nil, nil
		}
		return false, []registry.NodeID{id}, nil
	}
	return true, n.others(), nil
}

// expiredNodes lists the expired nodes, which cannot be asked, unless the query names a node.
func (n *Node) expiredNodes(name string) (list []gateway.NodeFailure) {
	for _, node := range n.registry.View().Nodes() {
		if name == "" && node.ID != n.id && node.State == registry.NodeExpired {
			list = append(list, gateway.NodeFailure{Node: string(node.ID), Error: "the node is expired; its log is on its own disk"})
		}
	}
	return list
}

// Audit returns entries of the audit logs.
func (n *Node) Audit(ctx context.Context, who gateway.Caller, q gateway.AuditQuery) (gateway.AuditList, error) {
	list, _, err := n.auditPages(ctx, who, &q)
	return list, err
}

// auditPages returns entries, and the last entry that was searched on each node.
func (n *Node) auditPages(ctx context.Context, who gateway.Caller, q *gateway.AuditQuery) (gateway.AuditList, map[registry.NodeID]uint64, error) {
	here, others, err := n.authorizeAudit(who, q)
	if err != nil {
		return gateway.AuditList{}, nil, err
	}
	pages, silent := askEach[audit.Page](ctx, n, auditReadLimit, others, methodAuditRead, q.Filter)
	if here {
		page, err := n.audit.Read(ctx, q.Filter)
		if err != nil {
			return gateway.AuditList{}, nil, n.fault(err)
		}
		pages[n.id] = page
	}
	list := gateway.AuditList{Failures: append(nodeFailures(silent), n.expiredNodes(q.Node)...)}
	through := make(map[registry.NodeID]uint64, len(pages))
	for id, page := range pages {
		list.Entries, list.More, through[id] = append(list.Entries, page.Entries...), list.More || page.More, page.Through
	}
	slices.SortFunc(list.Entries, func(a, b audit.Entry) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Seq, b.Seq))
	})
	if over := len(list.Entries) - cmp.Or(q.Limit, audit.DefaultLimit); over > 0 {
		list.Entries, list.More = list.Entries[over:], true
	}
	return list, through, nil
}

// serveAudit streams the entries of this node's log to another node.
func (n *Node) serveAudit(ctx context.Context, s *mesh.Stream) error {
	ask, err := receive[auditFollowAsk](s)
	if err == nil {
		err = n.awaitRegistry(ctx)
	}
	if err != nil {
		return err
	}
	return n.audit.Follow(ctx, ask.Filter, ask.After, sender[audit.Entry](s))
}

// VerifyAudit verifies logs, including against the heads that other nodes have recorded.
func (n *Node) VerifyAudit(ctx context.Context, who gateway.Caller, node string) (gateway.AuditVerdicts, error) {
	if err := requireOperator(who); err != nil {
		return gateway.AuditVerdicts{}, err
	}
	here, others, err := n.auditTargets(node)
	if err != nil {
		return gateway.AuditVerdicts{}, err
	}
	verdicts := gateway.AuditVerdicts{Failures: n.expiredNodes(node)}
	verdicts.OK = len(verdicts.Failures) == 0
	if here {
		others = append(others, n.id)
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, id := range others {
		all.Go(func() {
			report, err := n.verdict(ctx, id)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				verdicts.OK = false
				n.cfg.Log.Warn("an audit log could not be walked over", "node", id, "error", err)
				verdicts.Failures = append(verdicts.Failures, gateway.NodeFailure{Node: string(id), Error: unreachableReason(err)})
				return
			}
			verdicts.OK = verdicts.OK && report.Fault == nil
			verdicts.Reports = append(verdicts.Reports, report)
		})
	}
	all.Wait()
	slices.SortFunc(verdicts.Reports, func(a, b audit.Report) int { return cmp.Compare(a.Node, b.Node) })
	slices.SortFunc(verdicts.Failures, func(a, b gateway.NodeFailure) int { return cmp.Compare(a.Node, b.Node) })
	return verdicts, nil
}

// verdict verifies the log of one node.
func (n *Node) verdict(ctx context.Context, id registry.NodeID) (audit.Report, error) {
	var witnesses []registry.NodeID
	for _, other := range n.others() {
		if other != id {
			witnesses = append(witnesses, other)
		}
	}
	// Witnesses that do not answer are left out: the check is then weaker, but still valid.
	heads, _ := askEach[[]audit.Head](ctx, n, auditReadLimit, witnesses, methodAuditWitnessed, witnessedAsk{string(id)})
	if id != n.id {
		mine, err := n.witnessed(ctx, string(id))
		if err != nil {
			return audit.Report{}, err
		}
		heads[n.id] = mine
	}
	var ask auditVerifyAsk
	for _, node := range slices.Sorted(maps.Keys(heads)) {
		ask.Seen = append(ask.Seen, heads[node]...)
	}
	if id == n.id {
		return n.verifyHere(ctx, ask)
	}
	reports, silent := askEach[audit.Report](ctx, n, auditWalkLimit, []registry.NodeID{id}, methodAuditVerify, ask)
	return reports[id], silent[id]
}

// verifyHere verifies the log of this node.
func (n *Node) verifyHere(ctx context.Context, ask auditVerifyAsk) (audit.Report, error) {
	n.audit.Flush()
	report, err := audit.Verify(ctx, n.cfg.path(auditDir), ask.Seen...)
	report.Node = string(n.id)
	return report, err
}

// witnessed returns the latest heads of another node's log that this node has recorded.
func (n *Node) witnessed(ctx context.Context, node string) ([]audit.Head, error) {
	page, err := n.audit.Read(ctx, audit.Filter{Kind: audit.HeadWitnessed, Limit: audit.MaxLimit})
	heads := []audit.Head{}
	for _, e := range page.Entries {
		head, err := audit.ParseHead(e.Detail["seq"] + ":" + e.Detail["hash"])
		if e.Target == node && err == nil {
			heads = append(heads, head)
		}
	}
	return heads, err
}

const (
	// witnessEvery is the default of AuditConfig.Witness, and witnesses the number of nodes
	// that the head is sent to.
	witnessEvery = time.Minute
	witnesses    = 3
	witnessLimit = 10 * time.Second
)

// witnessLoop sends the head of this node's log to other nodes whenever entries were added,
// until ctx ends. Recorded heads of other nodes do not count as entries: nodes would
// otherwise keep each other busy for ever.
func (n *Node) witnessLoop(ctx context.Context) {
	every := time.NewTicker(cmp.Or(n.cfg.Audit.Witness, witnessEvery))
	defer every.Stop()
	for {
		select {
		case <-every.C:
			n.sendHead(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// sendHead sends the head of the log to the nodes that follow this one in the order of
// their ids, if there is a new one.
func (n *Node) sendHead(ctx context.Context) {
	added := n.entries.Load()
	if added == n.witnessedEntries {
		return
	}
	n.audit.Flush()
	ctx, cancel := context.WithTimeout(ctx, witnessLimit)
	defer cancel()
	others := n.others()
	slices.SortFunc(others, func(a, b registry.NodeID) int {
		if (a > n.id) != (b > n.id) {
			return cmp.Compare(b, a) // ids after this node's come first
		}
		return cmp.Compare(a, b)
	})
	others = others[:min(len(others), witnesses)]
	heard, _ := askEach[nothing](ctx, n, witnessLimit, others, methodAuditWitness, n.audit.State().Head)
	if len(heard) > 0 {
		n.witnessedEntries = added
	}
}

// witness records the head of another node's log.
func (n *Node) witness(node string, head audit.Head) {
	n.audit.Add(audit.Entry{Kind: audit.HeadWitnessed, Target: node, Detail: map[string]string{
		"seq": strconv.FormatUint(head.Seq, 10), "hash": head.Hash,
	}})
}

// auditStatus returns the state of the audit log.
func (n *Node) auditStatus() *gateway.AuditStatus {
	s := n.audit.State()
	status := &gateway.AuditStatus{Head: s.Head, Lost: s.Lost}
	if s.Failing != nil {
		status.Failing, status.FailingSince = s.Failing.Error(), &s.Since
	}
	return status
}
