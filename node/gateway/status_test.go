package gateway

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"unicode"

	"github.com/locusrun/locus/surfaces"
)

const execute = "/v1/tools/execute_code"

func program(code string) string { return `{"language":"python","code":"` + code + `"}` }

// Every status of the contract, each with the object as its body.
func TestStatuses(t *testing.T) {
	f := newFake()
	_, srv := serve(t, f, func(c *Config) { c.MaxBody = 10_000 })
	tests := []struct {
		name, method, path, body string
		edit                     func(*http.Request)
		status                   int
		code                     string
		says                     string
	}{
		{name: "done", path: execute, body: program("1"), status: 200},
		{name: "exception", path: execute, body: program("code=exception"), status: 200, code: "exception"},
		{name: "timeout", path: execute, body: program("code=timeout"), status: 200, code: "timeout"},
		{name: "killed", path: execute, body: program("code=segfault"), status: 200, code: "segfault"},
		{name: "state lost", path: execute, body: program("code=session_lost"), status: 200, code: "session_lost"},
		{name: "outcome unknown", path: execute, body: program("code=outcome_unknown"), status: 200, code: "outcome_unknown"},
		{name: "environment", path: execute, body: program("code=build_failed"), status: 200, code: "build_failed"},
		{name: "consent", path: execute, body: program("code=consent_denied"), status: 200, code: "consent_denied"},
		{name: "unavailable", path: execute, body: program("code=no_capacity"), status: 503, code: "no_capacity"},
		{name: "internal", path: execute, body: program("code=internal"), status: 500, code: "internal"},
		{name: "forbidden", path: execute, body: program("code=forbidden"), status: 403, code: "forbidden"},
		{name: "key reused", path: execute, body: program("reused"), status: 409, code: "invalid_argument"},
		{name: "validation", path: execute, body: `{"language":"cobol","code":""}`, status: 422, code: "unsupported_language"},
		{name: "validation on a stream", path: execute, body: `{"language":"cobol","code":""}`, edit: streaming, status: 422, code: "unsupported_language"},
		{name: "malformed", path: execute, body: `{"language":`, status: 422, code: "invalid_argument"},
		{name: "a list", path: execute, body: `[1]`, status: 422, code: "invalid_argument"},
		{name: "empty", path: execute, status: 422},
		{name: "panic", path: execute, body: program("panic"), status: 500, code: "internal"},
		{name: "too large", path: execute, body: program(strings.Repeat("x", 10_000)), status: 413, code: "invalid_argument", says: "10000"},
		{name: "too large, length unknown", path: execute, body: program(strings.Repeat("x", 10_000)), edit: func(r *http.Request) { r.ContentLength = -1 }, status: 413, code: "invalid_argument"},
		{name: "image", path: execute, body: "{}", edit: header("Content-Type", "image/png"), status: 415, code: "invalid_argument"},
		{name: "charset", path: execute, body: "{}", edit: header("Content-Type", "application/json; charset=latin1"), status: 415, code: "invalid_argument"},
		{name: "bad type", path: execute, body: "{}", edit: header("Content-Type", ";;"), status: 415, code: "invalid_argument"},
		{name: "compressed", path: execute, body: "{}", edit: header("Content-Encoding", "gzip"), status: 415, code: "invalid_argument"},
		{name: "utf-8 said", path: execute, body: program("1"), edit: header("Content-Type", "application/json; charset=UTF-8"), status: 200},
		{name: "no type said", path: execute, body: program("1"), edit: header("Content-Type", ""), status: 200},
		{name: "no token", path: execute, body: program("1"), edit: header("Authorization", ""), status: 401, code: "unauthenticated"},
		{name: "wrong token", path: execute, body: program("1"), edit: header("Authorization", "Bearer mallory"), status: 401, code: "unauthenticated"},
		{name: "token store broken", path: execute, body: program("1"), edit: header("Authorization", "Bearer broken"), status: 500, code: "internal"},
		{name: "unknown tool", path: "/v1/tools/exekute_code", body: "{}", status: 404, code: "invalid_argument", says: "did you mean execute_code"},
		{name: "unknown tool without token", path: "/v1/tools/nope", body: "{}", edit: header("Authorization", ""), status: 401, code: "unauthenticated"},
		{name: "wrong method", method: "GET", path: execute, status: 405, code: "invalid_argument", says: "POST"},
		{name: "options", method: "OPTIONS", path: execute, status: 405, code: "invalid_argument"},
		{name: "unknown path", method: "GET", path: "/v1/sttatus", status: 404, code: "invalid_argument", says: "Did you mean /v1/status"},
		{name: "slash at the end", method: "GET", path: "/v1/status/", status: 404, code: "invalid_argument", says: "slash"},
		{name: "unknown outside", method: "GET", path: "/favicon.ico", edit: header("Authorization", ""), status: 404, code: "invalid_argument"},
		{name: "unknown execution", method: "GET", path: "/v1/executions/call-999", status: 404, code: "invalid_argument", says: "call-999"},
		{name: "unknown execution stopped", path: "/v1/executions/call-999/stop", status: 404, code: "invalid_argument"},
		{name: "execution of another actor", method: "GET", path: "/v1/executions/call-1", edit: header("Authorization", "Bearer bob"), status: 404, code: "invalid_argument"},
		{name: "unknown action", path: "/v1/executions/call-1/stopp", status: 404, code: "invalid_argument", says: "/v1/executions/call-1/stop"},
		{name: "steering refused", path: "/v1/executions/call-1/answer", status: 422, code: "invalid_argument"},
		{name: "bad from", method: "GET", path: "/v1/executions/call-1?from=-1", status: 422, code: "invalid_argument", says: "from"},
		{name: "bad from, no number", method: "GET", path: "/v1/executions/call-1?from=", status: 422, code: "invalid_argument"},
		{name: "primitive without answer", path: "/v1/executions/call-1/primitives/1", body: `{}`, status: 422, code: "invalid_argument"},
		{name: "primitive with both", path: "/v1/executions/call-1/primitives/1", body: `{"result":1,"error":"x"}`, status: 422, code: "invalid_argument"},
		{name: "unknown primitive", path: "/v1/executions/call-1/primitives/7", body: `{"result":1}`, status: 404, code: "invalid_argument"},
		{name: "actors by an actor", path: "/v1/actors", body: `{"name":"x"}`, status: 403, code: "forbidden"},
		{name: "actor malformed", path: "/v1/actors", body: `{"name":`, edit: header("Authorization", "Bearer operator"), status: 422, code: "invalid_argument"},
		{name: "actor with an unknown member", path: "/v1/actors", body: `{"nam":"x"}`, edit: header("Authorization", "Bearer operator"), status: 422, code: "invalid_argument"},
		{name: "actor with more behind", path: "/v1/actors", body: `{"name":"x"} 1`, edit: header("Authorization", "Bearer operator"), status: 422, code: "invalid_argument"},
		{name: "unknown actor ended", method: "DELETE", path: "/v1/actors/zoe", status: 404, code: "invalid_argument"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			method := tt.method
			if method == "" {
				method = "POST"
			}
			r := request(t, method, srv.URL+tt.path, tt.body)
			if tt.edit != nil {
				tt.edit(r)
			}
			resp, body := send(t, r)
			if resp.StatusCode != tt.status {
				t.Fatalf("status %d, want %d: %s", resp.StatusCode, tt.status, body)
			}
			if kind := resp.Header.Get("Content-Type"); kind != "application/json" {
				t.Errorf("content type %q", kind)
			}
			got := decodeResult(t, body)
			if tt.code != "" && (got.Code == nil || string(*got.Code) != tt.code) {
				t.Errorf("code %v, want %s: %s", got.Code, tt.code, body)
			}
			if tt.status >= 400 && (got.Error == nil || *got.Error == "" || got.ErrorType == nil) {
				t.Errorf("no reason: %s", body)
			}
			if s := got.Suggestion; s != nil && !unicode.IsUpper([]rune(*s)[0]) {
				t.Errorf("the suggestion %q is not a sentence, as all others are", *s)
			}
			if !strings.Contains(body, tt.says) {
				t.Errorf("%q is not in %s", tt.says, body)
			}
			for name, on := range map[string]int{"Retry-After": 503, "WWW-Authenticate": 401, "Allow": 405} {
				if has := resp.Header.Get(name) != ""; has != (on == tt.status) {
					t.Errorf("header %s: %v at status %d", name, has, tt.status)
				}
			}
			if resp.Header.Get("X-Request-Id") == "" {
				t.Error("no request id")
			}
		})
	}
}

func TestToolErrors(t *testing.T) {
	for _, tt := range []struct {
		name   string
		err    error
		status int
	}{
		{"validation", &surfaces.Refusal{Code: surfaces.CodeSessionNotFound, Message: "no such session"}, 422},
		{"unavailable", &surfaces.Refusal{Code: surfaces.CodeNoQuorum, Message: "no quorum", RetryAfterS: 2.2}, 503},
		{"unexpected", errors.New("secret detail"), 500},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake()
			f.refuse = tt.err
			_, srv := serve(t, f, nil)
			for _, tool := range surfaces.Tools() {
				if tool.Name == surfaces.ToolExecute {
					continue
				}
				resp, body := send(t, request(t, "POST", srv.URL+"/v1/tools/"+tool.Name, "{}"))
				if resp.StatusCode != tt.status {
					t.Errorf("%s: status %d, want %d", tool.Name, resp.StatusCode, tt.status)
				}
				decodeResult(t, body)
				if strings.Contains(body, "secret detail") {
					t.Errorf("%s: a fault of ours is told to the caller: %s", tool.Name, body)
				}
				if tt.status == 503 && resp.Header.Get("Retry-After") != "3" {
					t.Errorf("Retry-After %q", resp.Header.Get("Retry-After"))
				}
			}
		})
	}
}
