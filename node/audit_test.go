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

	"github.com/locusrun/locus/node/audit"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// auditEntries returns the audit entries that match a query.
func (w *world) auditEntries(t testing.TB, query url.Values) gateway.AuditList {
	t.Helper()
	var list gateway.AuditList
	if status := w.get("/v1/audit?"+query.Encode(), &list); status != http.StatusOK {
		t.Fatalf("status %d, want 200", status)
	}
	return list
}

// auditEntriesOf returns the audit entries of a call, of some kinds only if these are given.
func (w *world) auditEntriesOf(t testing.TB, callID string, what ...audit.Kind) []audit.Entry {
	t.Helper()
	list := w.auditEntries(t, url.Values{"call_id": {callID}}).Entries
	if len(what) > 0 {
		list = slices.DeleteFunc(list, func(e audit.Entry) bool { return !slices.Contains(what, e.Kind) })
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
	entries := w.auditEntriesOf(t, res.CallID)
	if len(entries) != 2 {
		t.Fatalf("got %d entries, want the call's start and end: %+v", len(entries), entries)
	}
	begin, end := entries[0], entries[1]
	if begin.Kind != audit.CallStarted || begin.CodeSHA256 != digest(code) || begin.Thought != "to see it" || begin.Language != surfaces.Python ||
		begin.StateMode != surfaces.Stateful || *begin.SessionName != "s" || begin.Surface != surfaces.Local || begin.Status != "" {
		t.Errorf("got %+v, want the start of a stateful call in session s with its thought and the digest of its code", begin)
	}
	if end.Kind != audit.CallEnded || end.Status != surfaces.StatusDone || end.Attempts != 1 || end.ErrorCode != "" || end.RanOn != w.id() ||
		*end.SessionID != *res.SessionID || end.Detail["session_created"] != "true" || !slices.Equal(end.StateDiff.Added, []string{"x"}) ||
		end.Actor == "" || end.Actor != begin.Actor || end.DurationMS <= 0 || end.Seq <= begin.Seq {
		t.Errorf("got %+v, want the end of a call that is done, created its session and added x, after %+v", end, begin)
	}
	raised := w.exec(args{"code": "1/0"})
	if e := w.auditEntriesOf(t, raised.CallID, audit.CallEnded); len(e) != 1 || e[0].Status != surfaces.StatusFailed || e[0].ErrorCode != surfaces.CodeException {
		t.Errorf("got %+v, want one end with status failed and code exception", e)
	}
	refused := w.exec(args{"code": code, "session_name": "s"})
	if e := w.auditEntriesOf(t, refused.CallID); len(e) != 1 || e[0].Kind != audit.CallRefused || e[0].ErrorCode != surfaces.CodeStatelessWithSession ||
		e[0].Status != surfaces.StatusRefused || e[0].CodeSHA256 != digest(code) {
		t.Errorf("got %+v, want one refusal with code stateless_with_session and the digest of the code", e)
	}
	keyed := args{"code": "1", "idempotency_key": "k"}
	first := ok(t, w.exec(keyed))
	ok(t, w.exec(keyed))
	if e := w.auditEntriesOf(t, first.CallID); len(e) != 3 || e[2].Kind != audit.CallRepeated {
		t.Errorf("got %+v, want three entries, the last of a repeated call", e)
	}
	noSecretIn(t, filepath.Join(w.dir, "audit"), secret)
}

// noSecretIn checks that no file in a directory contains a text, and that none is readable by
// other users.
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
			t.Errorf("%s has mode %v, want -rw-------: %v", path, info.Mode(), err)
		}
		return err
	})
	if err != nil || files == 0 {
		t.Fatalf("found %d files, want some: %v", files, err)
	}
}

func TestPrimitivesSteeringAndSessionsAreAudited(t *testing.T) {
	w := fresh(t)
	events := w.stream(t.Context(), args{"code": "await primitives.files.read(path='marker-91c2')", "primitives": []string{"files.read"}})
	id := await(t, events, "started").data["call_id"].(string)
	asked := await(t, events, "primitive")
	var told map[string]any
	w.post(fmt.Sprintf("/v1/executions/%s/primitives/%v", id, asked.data["seq"]), args{"result": 1}, &told)
	await(t, events, "result")
	uses := w.auditEntriesOf(t, id, audit.PrimitiveUse)
	if len(uses) != 1 || uses[0].Primitive.Name != "files.read" || uses[0].Primitive.Outcome != "ok" || len(uses[0].Primitive.Digest) != 64 || uses[0].Primitive.Seq != 1 {
		t.Fatalf("got %+v, want one use of files.read, its first, with outcome ok and a digest", uses)
	}
	if e := w.auditEntriesOf(t, id, audit.CallEnded); e[0].Primitives != 1 || e[0].Seq < uses[0].Seq {
		t.Errorf("got %+v, want one primitive, and the end after its use", e)
	}

	running := w.exec(args{"code": "import time\nwhile True: time.sleep(0.01)", "background": true})
	at := "/v1/executions/" + running.CallID
	eventually(t, "it can be paused", func() bool { return w.post(at+"/pause", args{}, &told) == http.StatusOK })
	w.post(at+"/resume", args{}, &told)
	w.post(at+"/stop", args{}, &told)
	eventually(t, "it has ended", func() bool { return len(w.auditEntriesOf(t, running.CallID, audit.CallEnded)) == 1 })
	steps := w.auditEntriesOf(t, running.CallID, audit.CallSteered)
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
		t.Errorf("got %q, want pause, resume, stop", done)
	}

	ok(t, w.keep("one", "x = 1"))
	w.post("/v1/tools/fork_session", args{"session_name": "one", "new_name": "two"}, &told)
	w.post("/v1/tools/reset_session", args{"session_name": "one"}, &told)
	w.post("/v1/tools/close_session", args{"session_name": "two"}, &told)
	w.post("/v1/tools/close_session", args{"session_name": "none"}, &told)
	var acts []string
	for _, e := range w.auditEntries(t, url.Values{}).Entries {
		if e.SessionName != nil && strings.HasPrefix(string(e.Kind), "session_") {
			acts = append(acts, fmt.Sprint(e.Kind, " ", *e.SessionName, " ", e.Detail["copy"]+e.Detail["reason"]))
		}
	}
	if want := []string{"session_forked one two", "session_reset one ", "session_closed two success", "session_closed none not_found"}; !slices.Equal(acts, want) {
		t.Errorf("got %q, want %q", acts, want)
	}
	noSecretIn(t, filepath.Join(w.dir, "audit"), "marker-91c2")
}

// The code of a question to a busy session is audited as code, and a stored function as a call
// of its own.
func TestQuestionsAndFunctionsAreAudited(t *testing.T) {
	w := fresh(t)
	running := w.exec(args{"code": "import time\nwhile True: time.sleep(0.01)", "background": true, "state_mode": "stateful", "session_name": "s"})
	var told map[string]any
	eventually(t, "it can be asked", func() bool {
		return w.post("/v1/executions/"+running.CallID+"/ask", args{"code": "1 + 1"}, &told) == http.StatusOK
	})
	w.post("/v1/executions/"+running.CallID+"/stop", args{}, &told)
	var asked []audit.Entry
	for _, e := range w.auditEntries(t, url.Values{"what": {"call_started"}}).Entries {
		if e.Parent == running.CallID && e.CodeSHA256 == digest("1 + 1") {
			asked = append(asked, e)
		}
	}
	if len(asked) == 0 || len(w.auditEntriesOf(t, asked[len(asked)-1].CallID, audit.CallEnded)) != 1 {
		t.Fatalf("got %+v, want the start and the end of the question's code", asked)
	}

	var f gateway.FunctionInfo
	w.post("/v1/functions", args{"source": "def double_" + asked[0].Actor[len("actor-"):] + "(n): return 2 * n"}, &f)
	res := ok(t, w.once("await functions."+f.Name+"(21)"))
	var inner []audit.Entry
	for _, e := range w.auditEntries(t, url.Values{"what": {"call_started"}}).Entries {
		if e.Parent == res.CallID {
			inner = append(inner, e)
		}
	}
	if len(inner) != 1 || inner[0].Function != f.Name || inner[0].FunctionDigest != f.Digest {
		t.Errorf("got %+v, want one call of %s with digest %s", inner, f.Name, f.Digest)
	}
	if e := w.auditEntries(t, url.Values{"what": {"function_put"}}).Entries; len(e) != 1 || e[0].Target != f.Name || e[0].Detail["digest"] != f.Digest {
		t.Errorf("got %+v, want one entry for %s with digest %s", e, f.Name, f.Digest)
	}
}
