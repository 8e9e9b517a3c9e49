package node_test

import (
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestOperatorActionsAreAudited(t *testing.T) {
	w := start(t, t.TempDir())
	began := time.Now().UTC()
	a := w.newActor(t, "planner")
	var any map[string]any
	a.post("/v1/actors", args{"name": "sneaky"}, &any)
	w.post("/v1/tokens", args{"role": "node", "uses": 2}, &any)
	token := any["id"].(string)
	w.delete("/v1/tokens/" + token)
	w.post("/v1/nodes/"+w.id()+"/drain", args{"draining": true}, &any)
	w.post("/v1/nodes/"+w.id()+"/drain", args{"draining": false}, &any)
	w.post("/v1/nodes/"+w.id()+"/labels", args{"labels": args{"zone": "a"}}, &any)
	w.delete("/v1/nodes/" + w.id())
	w.post("/v1/venvs", args{"pyproject": "[project]\nname = \"ml\"\ndependencies = []\n"}, &any)
	w.delete("/v1/venvs/1")
	w.post("/v1/primitives", args{"name": "files", "command": []string{"server", "marker-secret"}, "actor": "planner"}, &any)
	w.delete("/v1/primitives/files?actor=planner")
	w.delete("/v1/actors/planner")
	list := w.auditEntries(t, url.Values{"from": {began.Format(time.RFC3339Nano)}, "limit": {"1000"}})
	var acts []string
	for _, e := range list.Entries {
		acts = append(acts, fmt.Sprint(e.Actor, " ", e.Kind, " ", strings.NewReplacer(token, "TOKEN", w.id(), "NODE").Replace(e.Target), " ", e.Status, e.ErrorCode))
	}
	want := []string{
		"default actor_created planner done", "planner actor_created sneaky refusedforbidden", "default token_created TOKEN done", "default token_revoked TOKEN done",
		"default node_drained NODE done", "default node_drained NODE done", "default node_labelled NODE done", "default node_removed NODE refusedinvalid_argument",
		"default venv_added 1 done", "default venv_removed 1 done", "default server_put files done", "default server_removed files done", "default actor_ended planner done",
	}
	if !slices.Equal(acts, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(acts, "\n"), strings.Join(want, "\n"))
	}
	noSecretIn(t, filepath.Join(w.dir, "audit"), "marker-secret")
}

// An actor that is no operator sees only its own entries. Only operators are told where the
// node keeps its data.
func TestAuditAccess(t *testing.T) {
	w := start(t, t.TempDir())
	ok(t, w.once("1"))
	a := w.newActor(t, "planner")
	mine := ok(t, a.once("2"))
	list := a.auditEntries(t, url.Values{})
	if len(list.Entries) != 2 || list.Entries[0].CallID != mine.CallID {
		t.Fatalf("got %+v, want the two entries of call %s alone", list, mine.CallID)
	}
	if status := a.get("/v1/audit?actor=default", new(any)); status != http.StatusForbidden {
		t.Errorf("status %d, want 403", status)
	}
	if status := a.get("/v1/audit/verify", new(any)); status != http.StatusForbidden {
		t.Errorf("status %d, want 403", status)
	}
	if list := w.auditEntries(t, url.Values{"actor": {"planner"}, "what": {"call_ended"}}); len(list.Entries) != 1 {
		t.Errorf("got %+v, want the one call of planner", list)
	}
	for _, bad := range []string{"node=none", "what=nothing"} {
		if status := w.get("/v1/audit?"+bad, new(any)); status/100 != 4 {
			t.Errorf("%s: status %d, want 4xx", bad, status)
		}
	}
	// A forbidden stream is refused by the status of the answer, not by an event.
	a.refuses("GET", "/v1/events", nil, http.StatusForbidden, "may not administer")
	a.refuses("GET", "/v1/audit?follow=true&actor=default", nil, http.StatusForbidden, "may not administer")
	w.refuses("GET", "/v1/audit?follow=true&node=none", nil, http.StatusNotFound, `there is no node "none"`)
	w.refuses("GET", "/v1/audit?follow=true&what=nothing", nil, http.StatusUnprocessableEntity, "nothing is logged")
	if s := a.status(); s.DataDir != "" || s.Audit != nil {
		t.Errorf("an actor is told %+v", s)
	}
	if s := w.status(); s.DataDir != w.dir || s.Audit.Head.Seq < 5 || s.Audit.Failing != "" {
		t.Errorf("an operator is told %+v", s)
	}
}
