package node_test

import (
	"slices"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

// followAudit streams the ends of calls from the audit logs of all nodes, after the event with
// an id or from the start.
func (w *world) followAudit(t *testing.T, after string) <-chan event {
	t.Helper()
	req := w.newRequest(t.Context(), "GET", "/v1/audit?follow=true&what=call_ended", nil)
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	return w.events(req)
}

// A client that reconnects, to any node, gets the entries after the last one that it received:
// none twice, and none left out.
func TestAnAuditStreamIsResumed(t *testing.T) {
	t.Parallel()
	all := mesh(t, 2)
	next := func(stream <-chan event) (call, id string) {
		t.Helper()
		e := await(t, stream, "entry")
		if e.id == "" {
			t.Fatalf("%+v has no id", e)
		}
		return e.data["call_id"].(string), e.id
	}
	are := func(stream <-chan event, want ...surfaces.Result) {
		t.Helper()
		var got []string
		for range want {
			call, _ := next(stream)
			got = append(got, call)
		}
		for _, res := range want {
			if !slices.Contains(got, res.CallID) {
				t.Errorf("%s is not among %q", res.CallID, got)
			}
		}
	}
	first, second := ok(t, all[0].once("1")), ok(t, all[1].once("2"))
	stream := all[0].followAudit(t, "")
	call, afterFirst := next(stream)
	if call != first.CallID {
		t.Fatalf("%s comes before %s", call, first.CallID)
	}
	call, afterSecond := next(stream)
	if call != second.CallID {
		t.Fatalf("%s comes before %s", call, second.CallID)
	}
	third := ok(t, all[0].once("3"))
	are(stream, third)
	are(all[1].followAudit(t, afterFirst), second, third)
	back := all[1].followAudit(t, afterSecond)
	are(back, third)
	are(back, ok(t, all[1].once("4")))
}
