package main

import (
	"strings"
	"testing"
)

const auditBody = `{"entries":[
{"seq":7,"prev":"00","node":"n1","at":"2026-05-01T11:59:00.5Z","what":"call_started","actor":"planner","call_id":"c1","language":"python","state_mode":"stateful","session_name":"notes","surface":"local","code_sha256":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08","hash":"aa"},
{"seq":8,"prev":"aa","node":"n1","at":"2026-05-01T11:59:01Z","what":"call_ended","actor":"planner","call_id":"c1","language":"python","state_mode":"stateful","session_id":3,"status":"failed","error_code":"timeout","state_lost":"process_died","duration_ms":1500,"hash":"bb"},
{"seq":3,"prev":"cc","node":"n2","at":"2026-05-01T11:59:02Z","what":"actor_created","actor":"default","target":"forged\nline","detail":{"role":"admin"},"status":"done","hash":"dd"},
{"seq":4,"prev":"dd","node":"n2","at":"2026-05-01T11:59:03Z","what":"node_started","hash":"ee"}],"more":true,"failures":[{"node":"n3","error":"cannot be reached"}]}`

const verdictsBody = `{"ok":false,"reports":[
{"node":"n1","first":5,"head":{"seq":9,"hash":"ff"},"entries":5,"dropped":4,"cuts":1,"lost":2,"unfinished":0,"seen":3,"fault":null},
{"node":"n2","first":1,"head":{"seq":3,"hash":"dd"},"entries":3,"dropped":0,"cuts":0,"lost":0,"unfinished":0,"seen":0,"fault":{"seq":4,"kind":"removed","where":"1.jsonl:4","text":"entry 4 is not there: entry 5 follows entry 3"}}],
"failures":[{"node":"n3","error":"cannot be reached"}]}`

func TestAuditIsShown(t *testing.T) {
	n := &fakeNode{answers: answers()}
	n.answers["GET /v1/audit"] = answer{200, auditBody}
	n.answers["GET /v1/audit/verify"] = answer{200, verdictsBody}
	for name, row := range map[string]struct {
		args   []string
		status int
	}{
		"audit":        {[]string{"audit"}, 0},
		"audit-verify": {[]string{"audit", "verify"}, 1},
	} {
		s := command(t, n, "")
		if status := s.a.run(t.Context(), row.args); status != row.status {
			t.Errorf("%s: status %d: %s, want status %v", name, status, s.err.String(), row.status)
		}
		golden(t, name, s.out.String()+"---\n"+s.err.String())
	}
}

func TestAuditIsFollowed(t *testing.T) {
	n := &fakeNode{answers: answers(), stream: events(
		"entry", `{"seq":7,"node":"n1","at":"2026-05-01T11:59:00Z","what":"node_started"}`,
		"failure", `{"node":"n3","error":"gone"}`, "later", `{}`,
		"result", `{"status":"refused","error":"No more.","error_type":"unavailable","code":"no_capacity","state_lost":false}`,
	)}
	s := command(t, n, "")
	if status := s.a.run(t.Context(), []string{"audit", "tail", "-f"}); status != 3 || !strings.Contains(s.out.String(), "n1/7  -  node_started\n") || !strings.Contains(s.err.String(), "the log of n3 is missing: gone") {
		t.Errorf("status %d, want 3: %q %q", status, s.out.String(), s.err.String())
	}
}

func TestAuditMisused(t *testing.T) {
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"audit", "tail", "-n", "0"}, "1 to 1000"},
		{[]string{"audit", "tail", "--from", "yesterday"}, "is not a time"},
		{[]string{"audit", "tail", "--node", "none"}, "there is no node"},
		{[]string{"audit", "verify", "--head", "1:00"}, "--head is for a log in a directory"},
		{[]string{"audit", "verify", "--data", "/nowhere"}, "there is no audit log"},
		{[]string{"audit", "verify", "--data", "/nowhere", "--head", "1:00"}, "is not the head of a log"},
	} {
		s := command(t, &fakeNode{answers: answers()}, "")
		if status := s.a.run(t.Context(), row.args); status != 2 || !strings.Contains(s.err.String(), row.want) {
			t.Errorf("%q: status %d, want 2: %s", row.args, status, s.err.String())
		}
	}
}
