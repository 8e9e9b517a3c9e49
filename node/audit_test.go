package node_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
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
	"github.com/locusrun/locus/surfaces"
)

// logged gives the entries that fit a query.
func (w *world) logged(t testing.TB, query url.Values) gateway.AuditList {
	t.Helper()
	var list gateway.AuditList
	if status := w.get("/v1/audit?"+query.Encode(), &list); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	return list
}

// of gives the entries of a call, those of a kind alone where one is named.
func (w *world) of(t testing.TB, callID string, what ...audit.What) []audit.Entry {
	t.Helper()
	list := w.logged(t, url.Values{"call_id": {callID}}).Entries
	if len(what) > 0 {
		list = slices.DeleteFunc(list, func(e audit.Entry) bool { return !slices.Contains(what, e.What) })
	}
	return list
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func TestCallsAreAudited(t *testing.T) {
	w := fresh(t)
	const secret = "marker-7f3a"
	code := "x = 1\n'" + secret + "'"
	res := ok(t, w.exec(args{"code": code, "state_mode": "stateful", "session_name": "s", "thought": "to see it"}))
	entries := w.of(t, res.CallID)
	if len(entries) != 2 {
		t.Fatalf("%+v", entries)
	}
	begin, end := entries[0], entries[1]
	if begin.What != audit.CallStarted || begin.CodeSHA256 != digest(code) || begin.Thought != "to see it" || begin.Language != surfaces.Python ||
		begin.StateMode != surfaces.Stateful || *begin.SessionName != "s" || begin.Surface != surfaces.Local || begin.Status != "" {
		t.Errorf("%+v", begin)
	}
	if end.What != audit.CallEnded || end.Status != surfaces.StatusDone || end.Attempts != 1 || end.ErrorCode != "" || end.RanOn != w.id() ||
		*end.SessionID != *res.SessionID || end.Detail["session_created"] != "true" || !slices.Equal(end.StateDiff.Added, []string{"x"}) ||
		end.Actor == "" || end.Actor != begin.Actor || end.DurationMS <= 0 || end.Seq <= begin.Seq {
		t.Errorf("%+v", end)
	}
	raised := w.exec(args{"code": "1/0"})
	if e := w.of(t, raised.CallID, audit.CallEnded); len(e) != 1 || e[0].Status != surfaces.StatusFailed || e[0].ErrorCode != surfaces.CodeException {
		t.Errorf("%+v", e)
	}
	refused := w.exec(args{"code": code, "session_name": "s"})
	if e := w.of(t, refused.CallID); len(e) != 1 || e[0].What != audit.CallRefused || e[0].ErrorCode != surfaces.CodeStatelessWithSession ||
		e[0].Status != surfaces.StatusRefused || e[0].CodeSHA256 != digest(code) {
		t.Errorf("%+v", e)
	}
	keyed := args{"code": "1", "idempotency_key": "k"}
	first := ok(t, w.exec(keyed))
	ok(t, w.exec(keyed))
	if e := w.of(t, first.CallID); len(e) != 3 || e[2].What != audit.CallRepeated {
		t.Errorf("%+v", e)
	}
	noSecretIn(t, filepath.Join(w.dir, "audit"), secret)
}

// noSecretIn sees to it that no file in a directory has a text, or is for others to read.
func noSecretIn(t testing.TB, dir, secret string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), secret) {
			t.Errorf("%s has what no log may have", path)
		}
		if info, err := d.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", path, info.Mode(), err)
		}
		return err
	})
	if err != nil || files == 0 {
		t.Fatalf("%d files, %v", files, err)
	}
}

func TestPrimitivesStepsAndSessionsAreAudited(t *testing.T) {
	w := fresh(t)
	events := w.stream(t.Context(), args{"code": "await primitives.files.read(path='marker-91c2')", "primitives": []string{"files.read"}})
	id := await(t, events, "started").data["call_id"].(string)
	asked := await(t, events, "primitive")
	var told map[string]any
	w.post(fmt.Sprintf("/v1/executions/%s/primitives/%v", id, asked.data["seq"]), args{"result": 1}, &told)
	await(t, events, "result")
	uses := w.of(t, id, audit.PrimitiveUse)
	if len(uses) != 1 || uses[0].Primitive.Name != "files.read" || uses[0].Primitive.Outcome != "ok" || len(uses[0].Primitive.Digest) != 64 || uses[0].Primitive.Seq != 1 {
		t.Fatalf("%+v", uses)
	}
	if e := w.of(t, id, audit.CallEnded); e[0].Primitives != 1 || e[0].Seq < uses[0].Seq {
		t.Errorf("%+v", e)
	}

	running := w.exec(args{"code": "import time\nwhile True: time.sleep(0.01)", "background": true})
	at := "/v1/executions/" + running.CallID
	eventually(t, "it can be paused", func() bool { return w.post(at+"/pause", args{}, &told) == http.StatusOK })
	w.post(at+"/resume", args{}, &told)
	w.post(at+"/stop", args{}, &told)
	eventually(t, "it has ended", func() bool { return len(w.of(t, running.CallID, audit.CallEnded)) == 1 })
	steps := w.of(t, running.CallID, audit.CallSteered)
	var done []string
	for _, e := range steps {
		if e.Status == surfaces.StatusDone {
			done = append(done, e.Detail["action"])
		}
		if e.Actor == "" {
			t.Errorf("nobody did %+v", e)
		}
	}
	if !slices.Equal(done, []string{"pause", "resume", "stop"}) {
		t.Errorf("%q", done)
	}

	ok(t, w.keep("one", "x = 1"))
	w.post("/v1/tools/fork_session", args{"session_name": "one", "new_name": "two"}, &told)
	w.post("/v1/tools/reset_session", args{"session_name": "one"}, &told)
	w.post("/v1/tools/close_session", args{"session_name": "two"}, &told)
	w.post("/v1/tools/close_session", args{"session_name": "none"}, &told)
	var acts []string
	for _, e := range w.logged(t, url.Values{}).Entries {
		if e.SessionName != nil && strings.HasPrefix(string(e.What), "session_") {
			acts = append(acts, fmt.Sprint(e.What, " ", *e.SessionName, " ", e.Detail["copy"]+e.Detail["reason"]))
		}
	}
	if want := []string{"session_forked one two", "session_reset one ", "session_closed two success", "session_closed none not_found"}; !slices.Equal(acts, want) {
		t.Errorf("%q", acts)
	}
	noSecretIn(t, filepath.Join(w.dir, "audit"), "marker-91c2")
}

// A question to a busy session is code that runs, and a stored function a call of its own.
func TestQuestionsAndFunctionsAreAudited(t *testing.T) {
	w := fresh(t)
	running := w.exec(args{"code": "import time\nwhile True: time.sleep(0.01)", "background": true, "state_mode": "stateful", "session_name": "s"})
	var told map[string]any
	eventually(t, "it can be asked", func() bool {
		return w.post("/v1/executions/"+running.CallID+"/ask", args{"code": "1 + 1"}, &told) == http.StatusOK
	})
	w.post("/v1/executions/"+running.CallID+"/stop", args{}, &told)
	var asked []audit.Entry
	for _, e := range w.logged(t, url.Values{"what": {"call_started"}}).Entries {
		if e.Parent == running.CallID && e.CodeSHA256 == digest("1 + 1") {
			asked = append(asked, e)
		}
	}
	if len(asked) == 0 || len(w.of(t, asked[len(asked)-1].CallID, audit.CallEnded)) != 1 {
		t.Fatalf("%+v", asked)
	}

	var f gateway.FunctionInfo
	w.post("/v1/functions", args{"source": "def double_" + asked[0].Actor[len("actor-"):] + "(n): return 2 * n"}, &f)
	res := ok(t, w.once("await functions."+f.Name+"(21)"))
	var inner []audit.Entry
	for _, e := range w.logged(t, url.Values{"what": {"call_started"}}).Entries {
		if e.Parent == res.CallID {
			inner = append(inner, e)
		}
	}
	if len(inner) != 1 || inner[0].Function != f.Name || inner[0].FunctionDigest != f.Digest {
		t.Errorf("%+v", inner)
	}
	if e := w.logged(t, url.Values{"what": {"function_put"}}).Entries; len(e) != 1 || e[0].Target != f.Name || e[0].Detail["digest"] != f.Digest {
		t.Errorf("%+v", e)
	}
}

func TestOperatorsActsAreAudited(t *testing.T) {
	w := start(t, t.TempDir())
	began := time.Now().UTC()
	a := w.newActor(t, "planner")
	var any map[string]any
	a.post("/v1/actors", args{"name": "sneaky"}, &any)
	w.post("/v1/tokens", args{"role": "node", "uses": 2}, &any)
	token := any["id"].(string)
	send(t, w, "DELETE", "/v1/tokens/"+token, nil)
	w.post("/v1/nodes/"+w.id()+"/drain", args{"draining": true}, &any)
	w.post("/v1/nodes/"+w.id()+"/drain", args{"draining": false}, &any)
	w.post("/v1/nodes/"+w.id()+"/labels", args{"labels": args{"zone": "a"}}, &any)
	send(t, w, "DELETE", "/v1/nodes/"+w.id(), nil)
	w.post("/v1/venvs", args{"pyproject": "[project]\nname = \"ml\"\ndependencies = []\n"}, &any)
	send(t, w, "DELETE", "/v1/venvs/1", nil)
	w.post("/v1/primitives", args{"name": "files", "command": []string{"server", "marker-secret"}, "actor": "planner"}, &any)
	send(t, w, "DELETE", "/v1/primitives/files?actor=planner", nil)
	send(t, w, "DELETE", "/v1/actors/planner", nil)
	list := w.logged(t, url.Values{"from": {began.Format(time.RFC3339Nano)}, "limit": {"1000"}})
	var acts []string
	for _, e := range list.Entries {
		acts = append(acts, fmt.Sprint(e.Actor, " ", e.What, " ", strings.NewReplacer(token, "TOKEN", w.id(), "NODE").Replace(e.Target), " ", e.Status, e.ErrorCode))
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

func send(t testing.TB, w *world, method, path string, body any) int {
	t.Helper()
	resp, err := w.request(t.Context(), method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// Who is no operator is shown what it did itself, and where the node keeps its things to
// nobody else.
func TestWhoSeesWhat(t *testing.T) {
	w := start(t, t.TempDir())
	ok(t, w.once("1"))
	a := w.newActor(t, "planner")
	mine := ok(t, a.once("2"))
	list := a.logged(t, url.Values{})
	if len(list.Entries) != 2 || list.Entries[0].CallID != mine.CallID {
		t.Fatalf("%+v", list)
	}
	if status := a.get("/v1/audit?actor=default", new(any)); status != http.StatusForbidden {
		t.Errorf("status %d", status)
	}
	if status := a.get("/v1/audit/verify", new(any)); status != http.StatusForbidden {
		t.Errorf("status %d", status)
	}
	if list := w.logged(t, url.Values{"actor": {"planner"}, "what": {"call_ended"}}); len(list.Entries) != 1 {
		t.Errorf("%+v", list)
	}
	for _, bad := range []string{"node=none", "what=nothing"} {
		if status := w.get("/v1/audit?"+bad, new(any)); status/100 != 4 {
			t.Errorf("%s: status %d", bad, status)
		}
	}
	// Who may not hear a stream is told so by the answer's status, not by an event of it.
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

// A log goes on over a restart, and a full disk stops no call.
func TestTheAuditLogOverARestart(t *testing.T) {
	dir := t.TempDir()
	w := start(t, dir)
	ok(t, w.once("1"))
	head := w.status().Audit.Head
	w.stop()
	w = start(t, dir)
	ok(t, w.once("1"))
	var v gateway.AuditVerdicts
	w.get("/v1/audit/verify", &v)
	if !v.OK || len(v.Reports) != 1 || v.Reports[0].Fault != nil || v.Reports[0].Entries < head.Seq+4 {
		t.Fatalf("%+v", v)
	}
	if r, err := audit.Verify(t.Context(), filepath.Join(dir, "audit"), head); err != nil || r.Fault != nil || r.Seen != 1 {
		t.Fatalf("%+v %v", r, err)
	}
	whats := []audit.What{}
	for _, e := range w.logged(t, url.Values{}).Entries {
		whats = append(whats, e.What)
	}
	call := []audit.What{audit.CallStarted, audit.CallEnded}
	if want := slices.Concat([]audit.What{audit.NodeStarted}, call, []audit.What{audit.NodeStopped, audit.NodeStarted}, call); !slices.Equal(whats, want) {
		t.Fatalf("%q", whats)
	}

	// Where the log cannot be written, calls are answered as they are, and it is told.
	away := filepath.Join(t.TempDir(), "audit")
	if err := os.Rename(filepath.Join(dir, "audit"), away); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "audit"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	value(t, w.once("6 * 7"), "42")
	eventually(t, "the node says that it cannot write its log", func() bool { return w.status().Audit.Failing != "" })
	if status := send(t, w, "GET", "/readyz", nil); status != http.StatusServiceUnavailable {
		t.Errorf("ready with status %d", status)
	}
	if text := w.text(t, "/metrics"); !strings.Contains(text, "locus_audit_failing 1\n") || !strings.Contains(text, "locus_audit_lost_total ") {
		t.Errorf("the metrics do not say it: %s", text)
	}
	value(t, w.once("6 * 7"), "42")
	if err := os.Remove(filepath.Join(dir, "audit")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(away, filepath.Join(dir, "audit")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it goes on", func() bool { return w.status().Audit.Failing == "" })
	v = gateway.AuditVerdicts{}
	if w.get("/v1/audit/verify", &v); !v.OK {
		t.Errorf("%+v", v)
	}
}

func (w *world) text(t testing.TB, path string) string {
	t.Helper()
	resp, err := w.request(t.Context(), "GET", path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b strings.Builder
	if err := resp.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Through any node all logs are read, together, and followed; each is known by others, who
// find out when its end is cut off.
func TestAuditOfAMesh(t *testing.T) {
	t.Parallel()
	all := mesh(t, 3, func(c *node.Config) { c.Audit.Witness = 50 * time.Millisecond })
	req, err := http.NewRequestWithContext(t.Context(), "GET", all[0].url+"/v1/audit?follow=true&what=call_ended", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+all[0].token)
	follow := all[0].events(req)
	nodes := map[string]string{}
	for _, w := range all {
		res := ok(t, w.once("1"))
		nodes[res.CallID] = w.id()
	}
	for _, w := range all {
		list := w.logged(t, url.Values{"what": {"call_ended"}})
		if len(list.Entries) != 3 || len(list.Failures) != 0 || !slices.IsSortedFunc(list.Entries, func(a, b audit.Entry) int { return a.At.Compare(b.At) }) {
			t.Fatalf("%+v", list)
		}
		for _, e := range list.Entries {
			if e.Node != nodes[e.CallID] {
				t.Errorf("%s is in the log of %s", e.CallID, e.Node)
			}
		}
		if one := w.logged(t, url.Values{"what": {"call_ended"}, "node": {all[1].id()}}); len(one.Entries) != 1 || one.Entries[0].Node != all[1].id() {
			t.Errorf("%+v", one)
		}
	}
	for range all {
		e := await(t, follow, "entry")
		id := e.data["call_id"].(string)
		if e.data["node"] != nodes[id] {
			t.Errorf("%+v", e)
		}
		delete(nodes, id)
	}
	if len(nodes) != 0 {
		t.Errorf("not told: %v", nodes)
	}

	// The log of the third is seen by others, stopped, cut, and started again.
	third := all[2]
	id := third.id()
	seen := func() uint64 {
		var most uint64
		for _, e := range all[0].logged(t, url.Values{"what": {"head_witnessed"}, "limit": {"1000"}}).Entries {
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
	ended := all[2].logged(t, url.Values{"what": {"call_ended"}, "node": {id}}).Entries[0].Seq
	eventually(t, "others know of its call", func() bool { return seen() >= ended })
	var v gateway.AuditVerdicts
	if all[1].get("/v1/audit/verify?node="+id, &v); !v.OK || v.Reports[0].Seen == 0 {
		t.Fatalf("%+v", v)
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
	if list := all[0].logged(t, url.Values{}); len(list.Failures) != 1 || list.Failures[0].Node != id {
		t.Errorf("%+v", list.Failures)
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
