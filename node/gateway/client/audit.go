package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/locusrun/locus/node/audit"
	"github.com/locusrun/locus/node/gateway"
)

// Audit returns the latest matching entries of the audit logs, oldest first.
func (c *Client) Audit(ctx context.Context, q gateway.AuditQuery) (gateway.AuditList, error) {
	var list gateway.AuditList
	err := c.ask(ctx, http.MethodGet, "/v1/audit?"+auditValues(q).Encode(), nil, &list)
	return list, err
}

// VerifyAudit verifies the audit log of a node, or of all nodes if the name is empty.
func (c *Client) VerifyAudit(ctx context.Context, node string) (gateway.AuditVerdicts, error) {
	var verdicts gateway.AuditVerdicts
	err := c.ask(ctx, http.MethodGet, "/v1/audit/verify?"+auditValues(gateway.AuditQuery{Node: node}).Encode(), nil, &verdicts)
	return verdicts, err
}

// FollowAudit emits the entries of Audit and then new ones, until ctx ends, emit fails or
// the connection breaks; the error says which. To continue after an item, set q.After to
// its ID, parsed by gateway.ParseCursor.
func (c *Client) FollowAudit(ctx context.Context, q gateway.AuditQuery, emit func(gateway.AuditItem) error) error {
	return c.listen(ctx, "/v1/audit", auditValues(q), func(ev wireEvent) error {
		item := gateway.AuditItem{ID: ev.id}
		var err error
		switch ev.name {
		case "entry":
			item.Entry = new(audit.Entry)
			err = json.Unmarshal(ev.data, item.Entry)
		case "failure":
			item.Failure = new(gateway.NodeFailure)
			err = json.Unmarshal(ev.data, item.Failure)
		default:
			return nil // from a later release
		}
		if err != nil {
			return &ProtocolError{Server: c.Server(), HTTPStatus: http.StatusOK, Reason: "an entry cannot be decoded: " + err.Error()}
		}
		return emit(item)
	})
}

func auditValues(q gateway.AuditQuery) url.Values {
	values := url.Values{}
	for name, text := range map[string]string{"node": q.Node, "actor": q.Actor, "call_id": q.CallID, "what": string(q.Kind)} {
		if text != "" {
			values.Set(name, text)
		}
	}
	for name, at := range map[string]time.Time{"from": q.From, "until": q.Until} {
		if !at.IsZero() {
			values.Set(name, at.Format(time.RFC3339Nano))
		}
	}
	if q.After != nil {
		values.Set("after", q.After.String())
	}
	if q.Limit != 0 {
		values.Set("limit", strconv.Itoa(q.Limit))
	}
	return values
}
