package node_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/locusrun/locus/node"
	"github.com/locusrun/locus/node/audit"
	"github.com/locusrun/locus/node/gateway"
)

// Any node returns and streams the entries of all nodes. Nodes witness each other's logs, so a
// log that was cut off at its end is detected.
func TestAuditOfAMesh(t *testing.T) {
	t.Parallel()
	all := mesh(t, 3, func(c *node.Config) { c.Audit.Witness = 50 * time.Millisecond })
	req := all[0].newRequest(t.Context(), "GET", "/v1/audit?follow=true&what=call_ended", nil)
	follow := all[0].events(req)
	nodes := map[string]string{}
	for _, w := range all {
		res := ok(t, w.once("1"))
		nodes[res.CallID] = w.id()
	}
	for _, w := range all {
		list := w.auditEntries(t, url.Values{"what": {"call_ended"}})
		if len(list.Entries) != 3 || len(list.Failures) != 0 || !slices.IsSortedFunc(list.Entries, func(a, b audit.Entry) int { return a.At.Compare(b.At) }) {
			t.Fatalf("got %+v, want the ends of three calls by time, and no failure", list)
		}
		for _, e := range list.Entries {
			if e.Node != nodes[e.CallID] {
				t.Errorf("%s is in the log of %s", e.CallID, e.Node)
			}
		}
		if one := w.auditEntries(t, url.Values{"what": {"call_ended"}, "node": {all[1].id()}}); len(one.Entries) != 1 || one.Entries[0].Node != all[1].id() {
			t.Errorf("got %+v, want one entry, of node %s", one, all[1].id())
		}
	}
	for range all {
		e := await(t, follow, "entry")
		id := e.data["call_id"].(string)
		if e.data["node"] != nodes[id] {
			t.Errorf("got %+v, want an entry of node %s", e, nodes[id])
		}
		delete(nodes, id)
	}
	if len(nodes) != 0 {
		t.Errorf("not told: %v", nodes)
	}

	// The third node's log is witnessed by others. The node is stopped, its log cut, and the
	// node started again.
	third := all[2]
	id := third.id()
	seen := func() uint64 {
		var most uint64
		for _, e := range all[0].auditEntries(t, url.Values{"what": {"head_witnessed"}, "limit": {"1000"}}).Entries {
			if e.Target == id {
				var n uint64
				if _, err := fmt.Sscan(e.Detail["seq"], &n); err != nil {
					t.Error(err)
				}
				most = max(most, n)
			}
		}
		return most
	}
	ended := all[2].auditEntries(t, url.Values{"what": {"call_ended"}, "node": {id}}).Entries[0].Seq
	eventually(t, "others know of its call", func() bool { return seen() >= ended })
	var v gateway.AuditVerdicts
	if all[1].get("/v1/audit/verify?node="+id, &v); !v.OK || v.Reports[0].Seen == 0 {
		t.Fatalf("got %+v, want a correct log with a witnessed head", v)
	}
	third.stop()
	path := filepath.Join(third.dir, "audit", fmt.Sprintf("%020d.jsonl", 1))
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	if err := os.WriteFile(path, []byte(strings.Join(lines[:ended-1], "")), 0o600); err != nil {
		t.Fatal(err)
	}
	if list := all[0].auditEntries(t, url.Values{}); len(list.Failures) != 1 || list.Failures[0].Node != id {
		t.Errorf("got failures %+v, want one, of node %s", list.Failures, id)
	}
	if r, err := audit.Verify(t.Context(), filepath.Join(third.dir, "audit")); err != nil || r.Fault != nil {
		t.Fatalf("the chain alone tells: %+v %v", r, err)
	}
	start(t, third.dir, quick)
	eventually(t, "it is found out", func() bool {
		v = gateway.AuditVerdicts{}
		all[0].get("/v1/audit/verify", &v)
		i := slices.IndexFunc(v.Reports, func(r audit.Report) bool { return r.Node == id })
		return i >= 0 && v.Reports[i].Fault != nil && !v.OK
	})
}
