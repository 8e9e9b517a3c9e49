package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/locusrun/locus/node/audit"
)

// AuditQuery selects entries of the audit logs: those that match the filter, of one node,
// or of all reachable nodes if Node is empty.
type AuditQuery struct {
	audit.Filter
	// Node limits the query to the log of one node; empty for all.
	Node string
	// After is the position after which a stream continues; nil starts it.
	After Cursor
}

// AuditList answers GET /v1/audit: the latest matching entries, oldest first. More says
// that there are older ones. Failures lists the nodes whose entries are missing.
type AuditList struct {
	Entries  []audit.Entry `json:"entries"`
	More     bool          `json:"more"`
	Failures []NodeFailure `json:"failures"`
}

// NodeFailure says why a node did not answer.
type NodeFailure struct {
	Node  string `json:"node"`
	Error string `json:"error"`
}

// AuditItem is one event of a stream of audit entries: an entry, or a node that does not
// answer, or with neither only a position. ID is the position after it.
type AuditItem struct {
	ID      string
	Entry   *audit.Entry
	Failure *NodeFailure
}

// AuditVerdicts answers GET /v1/audit/verify. OK says that all logs were verified and have
// no fault.
type AuditVerdicts struct {
	OK       bool           `json:"ok"`
	Reports  []audit.Report `json:"reports"`
	Failures []NodeFailure  `json:"failures"`
}

// AuditStatus is the state of the node's audit log. Failing is why it cannot be written at
// the moment; empty if it can. Lost counts the entries that could not be written since the
// node started.
type AuditStatus struct {
	Head         audit.Head `json:"head"`
	Lost         int64      `json:"lost"`
	Failing      string     `json:"failing,omitempty"`
	FailingSince *time.Time `json:"failing_since,omitempty"`
}

var auditQueries = []parameter{
	{name: "node", in: "query", doc: "The node whose log to read; by default the logs of all nodes, merged by time.", text: true},
	{name: "actor", in: "query", doc: "Only entries of this actor. Callers who are no operators only get their own.", text: true},
	{name: "call_id", in: "query", doc: "Only entries about this call.", text: true},
	{name: "what", in: "query", doc: "Only entries of this kind, such as call_ended.", text: true},
	{name: "from", in: "query", doc: "Only entries from this time (RFC 3339) on.", text: true},
	{name: "until", in: "query", doc: "Only entries before this time (RFC 3339).", text: true},
	{name: "limit", in: "query", doc: "The number of latest entries: 1 to 1000, default 100."},
	{name: "follow", in: "query", doc: "true also streams new entries, like Accept: text/event-stream. Events: entry, whose data is an Entry, and failure {node, error}.", text: true},
	{name: "after", in: "query", doc: "For a stream: start after the event with this id, as far as later entries are still kept.", text: true},
	lastCursor,
}

// auditRoutes are the routes of the audit logs.
func auditRoutes() []route {
	return []route{
		{method: "GET", pattern: "/v1/audit", pool: poolOwn, handle: (*exchange).audit, answers: typeOf[AuditList](), kinds: []string{kindJSON, kindStream},
			query: auditQueries, refusals: []int{404, 422, 503}, doc: "The audit logs: who did what, with which outcome."},
		{method: "GET", pattern: "/v1/audit/verify", handle: (*exchange).verifyAudit, answers: typeOf[AuditVerdicts](), query: auditQueries[:1], refusals: []int{404, 503},
			doc: "Verify the audit logs, and report for each the first entry that was changed, removed or moved. For operators."},
	}
}

func (x *exchange) audit() error {
	q, err := x.auditQuery()
	if err != nil {
		return err
	}
	pool := x.g.controls
	follow := x.r.URL.Query().Get("follow") == "true" || wantsStream(x.r)
	if follow {
		pool = x.g.calls
	}
	release, err := x.takeSlot(pool)
	if err != nil {
		return err
	}
	defer release()
	if !follow {
		list, err := x.g.svc.Audit(x.ctx, x.caller, q)
		list.Entries, list.Failures = notNil(list.Entries), notNil(list.Failures)
		return reply(x, list, err)
	}
	if q.After, err = x.after(); err != nil {
		return err
	}
	tell, err := x.g.svc.FollowAudit(x.caller, q)
	if err != nil {
		return err
	}
	return x.untilClosing(func(ctx context.Context, s *eventStream) error {
		return tell(ctx, func(item AuditItem) error {
			switch {
			case item.Failure != nil:
				return s.object(item.ID, "failure", item.Failure)
			case item.Entry != nil:
				return s.object(item.ID, "entry", item.Entry)
			}
			return s.mark(item.ID)
		})
	})
}

// auditQuery parses the query parameters.
func (x *exchange) auditQuery() (AuditQuery, error) {
	values := x.r.URL.Query()
	q := AuditQuery{Node: values.Get("node"), Filter: audit.Filter{
		Actor: values.Get("actor"), CallID: values.Get("call_id"), Kind: audit.Kind(values.Get("what")),
	}}
	for name, into := range map[string]*time.Time{"from": &q.From, "until": &q.Until} {
		text := values.Get(name)
		if text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return q, invalid(http.StatusUnprocessableEntity, fmt.Sprintf("%s = %q is no time", name, clip(text, 50)), fmt.Sprintf("Set %s to a time such as 2026-01-31T15:04:05Z.", name))
		}
		*into = at
	}
	if text := values.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > audit.MaxLimit {
			return q, invalid(http.StatusUnprocessableEntity, fmt.Sprintf("limit = %q is no number of entries", clip(text, 50)), fmt.Sprintf("Set limit to 1 to %d.", audit.MaxLimit))
		}
		q.Limit = n
	}
	if text := values.Get("follow"); text != "" && text != "true" && text != "false" {
		return q, invalid(http.StatusUnprocessableEntity, fmt.Sprintf("follow = %q is neither true nor false", clip(text, 50)), "Set follow to true or leave it out.")
	}
	return q, nil
}

func (x *exchange) verifyAudit() error {
	verdicts, err := x.g.svc.VerifyAudit(x.ctx, x.caller, x.r.URL.Query().Get("node"))
	verdicts.Reports, verdicts.Failures = notNil(verdicts.Reports), notNil(verdicts.Failures)
	return reply(x, verdicts, err)
}
