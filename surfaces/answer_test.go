package surfaces

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// golden compares JSON with a file under testdata, which holds it indented.
func golden(t *testing.T, name string, v any) {
	t.Helper()
	got, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(string(want)) != string(got) {
		t.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
	}
}

// TestResultFields: the one object has all its fields, whatever happened.
func TestResultFields(t *testing.T) {
	golden(t, "result_zero.json", Result{})
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(encode(t, Result{})), &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(`call_id status stdout stderr truncated result result_type display
		error error_type code suggestion fix exception exit language state_mode session_id session_name venv_id
		surface machine node session_created duration_ms attempts state_lost state_diff usage`) {
		if _, ok := fields[name]; !ok {
			t.Errorf("the result has no %s", name)
		}
	}
}

func TestRefusalResult(t *testing.T) {
	_, r := Resolve([]byte(`{"code":"1","language":"bash","venv_id":1,"session_id":3,"session_name":"x","state_mode":"stateless","surface":"local","machine":"m"}`), world())
	if r == nil {
		t.Fatal("was not refused")
	}
	golden(t, "result_refused.json", r.Result(Partial{CallID: "c1", Node: "n1"}))
}

func TestRefusalEchoesWhatCanBeRead(t *testing.T) {
	_, r := Resolve([]byte(`{"language":"ruby","session_id":"x","venv_id":-1,"session_name":["a"],"machine":"\ud800","surface":"moon"}`), world())
	res := r.Result(Partial{})
	if *res.Language != "ruby" || *res.Surface != "moon" || res.SessionID != nil || res.VenvID != nil || res.SessionName != nil || res.Machine != nil {
		t.Errorf("got %s, want Language \"ruby\", Surface \"moon\", no SessionID, no VenvID, no SessionName, no Machine", encode(t, res))
	}
	// What the caller of Result knows better wins.
	res = r.Result(Partial{At: Coordinates{Language: ptr(Python)}})
	if *res.Language != Python || res.Surface != nil {
		t.Errorf("got %s, want Language %v, no Surface", encode(t, res), Python)
	}
	if res := (&Refusal{Code: CodeNoCapacity, RetryAfterS: 1.5}).Result(Partial{}); *res.RetryAfterS != 1.5 || res.Suggestion != nil {
		t.Errorf("got %s, want RetryAfterS 1.5, no Suggestion", encode(t, res))
	}
}

func TestFailKeepsTheRest(t *testing.T) {
	res := Result{CallID: "c", Stdout: "so far", Node: "n"}
	res.Fail(CodeTimeout, "too slow")
	if res.Status != StatusFailed || *res.ErrorType != TypeTimeout || *res.Code != CodeTimeout || *res.Error != "too slow" || res.Stdout != "so far" {
		t.Errorf("got %s, want Status %v, ErrorType %v, Code %v, Error \"too slow\", Stdout \"so far\"", encode(t, res), StatusFailed, TypeTimeout, CodeTimeout)
	}
	failed := Failed(Partial{CallID: "c", Node: "n", DurationMS: 5, Attempts: 1}, CodeOutOfMemory, "512 MiB reached")
	if failed.Status != StatusFailed || *failed.ErrorType != TypeKilled || failed.DurationMS != 5 || failed.Attempts != 1 || failed.Fix != nil {
		t.Errorf("got %s, want failed.Status %v, failed.ErrorType %v, failed.DurationMS 5, failed.Attempts 1, no failed.Fix", encode(t, failed), StatusFailed, TypeKilled)
	}
}

// TestStatuses walks every code through the three outcomes that doors show.
func TestStatuses(t *testing.T) {
	type row struct {
		status Status
		http   int
		exit   int
	}
	rows := map[Code]row{
		CodeConsentDenied: {StatusFailed, 200, 2}, CodeConsentTimeout: {StatusFailed, 200, 2},
		CodeMachineUnreachable: {StatusRefused, 503, 3}, CodeOwnerUnreachable: {StatusRefused, 503, 3},
		CodeNoCapacity: {StatusRefused, 503, 3}, CodeNoQuorum: {StatusRefused, 503, 3},
		CodeSessionLost: {StatusFailed, 200, 5}, CodeOutcomeUnknown: {StatusFailed, 200, 5},
		CodeBuildFailed: {StatusFailed, 200, 3}, CodeBuildTimeout: {StatusFailed, 200, 3},
		CodeTimeout: {StatusFailed, 200, 4}, CodeSegfault: {StatusFailed, 200, 1},
		CodeOutOfMemory: {StatusFailed, 200, 1}, CodeKilled: {StatusFailed, 200, 1}, CodeStopped: {StatusFailed, 200, 1},
		CodeException: {StatusFailed, 200, 1}, CodeUnauthenticated: {StatusRefused, 401, 2}, CodeForbidden: {StatusRefused, 403, 2},
		CodeInternal: {StatusFailed, 500, 3},
	}
	for _, c := range Precedence() {
		rows[c] = row{StatusRefused, 422, 2}
	}
	for c := range typeOfCode {
		if _, ok := rows[c]; !ok {
			t.Errorf("no row for %s", c)
		}
	}
	for code, want := range rows {
		res := Failed(Partial{}, code, "x")
		if got := (row{res.Status, HTTPStatus(res), ExitStatus(res)}); got != want {
			t.Errorf("%s: %v, want %v", code, got, want)
		}
	}
	for _, res := range []Result{{Status: StatusDone}, {Status: StatusRunning}, {Status: StatusDone, StateLost: StateLost{&Loss{Reason: "killed"}}}} {
		if HTTPStatus(res) != 200 || ExitStatus(res) != 0 {
			t.Errorf("%s: %d %d", res.Status, HTTPStatus(res), ExitStatus(res))
		}
	}
	if got := HTTPStatus(KeyReused("k").Result(Partial{})); got != 409 {
		t.Errorf("reused key: %d", got)
	}
	if got := HTTPStatus(UnknownExecution("c").Result(Partial{})); got != 404 {
		t.Errorf("unknown execution: %d", got)
	}
	if r := Internal("id-7"); !strings.Contains(r.Error(), "id-7") || ExitStatus(r.Result(Partial{})) != 3 {
		t.Errorf("internal: %+v", r)
	}
}

func TestStateLostInJSON(t *testing.T) {
	for text, want := range map[string]*Loss{
		`false`: nil, `null`: nil,
		`{"reason":"killed","at":"2026-01-01T00:00:00Z","epoch":2}`: {Reason: "killed", At: "2026-01-01T00:00:00Z", Epoch: 2},
	} {
		var s StateLost
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		if (s.Loss == nil) != (want == nil) || (want != nil && *s.Loss != *want) {
			t.Errorf("%s: %+v", text, s.Loss)
		}
		if got := encode(t, s); text != "null" && got != text {
			t.Errorf("%s became %s", text, got)
		}
	}
	if err := json.Unmarshal([]byte(`7`), new(StateLost)); err == nil {
		t.Error("7 is no loss")
	}
}

func TestFixApply(t *testing.T) {
	args := parse(t, `{"a":1,"b":2}`)
	fixed, err := Fix{Drop: []string{"a", "z"}, Set: map[string]any{"b": "x", "c": 1.5}}.Apply(args)
	if err != nil || encode(t, fixed) != `{"b":"x","c":1.5}` {
		t.Errorf("%s %v", encode(t, fixed), err)
	}
	if encode(t, args) != `{"a":1,"b":2}` {
		t.Errorf("the arguments were changed: %s", encode(t, args))
	}
	if fixed, err = (Fix{Set: map[string]any{"c": true}}).Apply(nil); err != nil || encode(t, fixed) != `{"c":true}` {
		t.Errorf("%s %v", encode(t, fixed), err)
	}
	if _, err = (Fix{Set: map[string]any{"c": make(chan int)}}).Apply(nil); err == nil {
		t.Error("a channel is no JSON")
	}
}
