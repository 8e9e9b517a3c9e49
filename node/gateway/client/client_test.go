package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
	"github.com/locusrun/locus/surfaces/tracing"
)

func TestServerAddresses(t *testing.T) {
	for in, want := range map[string]string{
		"127.0.0.1:7070":             "http://127.0.0.1:7070",
		" http://localhost:1/ ":      "http://localhost:1",
		"https://mesh.example/locus": "https://mesh.example/locus",
		"[::1]:7070":                 "http://[::1]:7070",
	} {
		c, err := New(Config{Server: in})
		if err != nil || c.Server() != want {
			t.Errorf("%q: %v %v, want %s", in, c, err, want)
		}
	}
	for _, in := range []string{"", "ftp://a", "http://", "http://u:p@h", "http://h?x=1", "::bad::"} {
		_, err := New(Config{Server: in})
		var bad *InvalidServerError
		if !errors.As(err, &bad) {
			t.Errorf("%q: %v, want BadServer", in, err)
		}
	}
}

// closedPort gives an address that nothing listens on.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestNoNodeThere(t *testing.T) {
	c, err := New(Config{Server: closedPort(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	nothing := func(gateway.StreamEvent) error { return nil }
	for name, call := range map[string]func() error{
		"execute": func() error { _, err := c.Execute(ctx, Arguments{}); return err },
		"stream":  func() error { _, err := c.Stream(ctx, Arguments{}, nothing); return err },
		"status":  func() error { _, err := c.Status(ctx); return err },
		"list":    func() error { _, err := c.ListSessions(ctx); return err },
		"events":  func() error { return c.Events(ctx, func(gateway.MeshEvent) error { return nil }) },
		"healthy": func() error { return c.Healthy(ctx) },
	} {
		var unreachable *UnreachableError
		if err := call(); !errors.As(err, &unreachable) {
			t.Errorf("%s: %v, want Unreachable", name, err)
		}
	}
}

// Without a connection that TLS has agreed to nothing was sent, so nothing can have run.
func TestTLSFailuresMeanNothingWasSent(t *testing.T) {
	answers := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request came") })
	plain, stranger := httptest.NewServer(answers), httptest.NewUnstartedServer(answers)
	stranger.Config.ErrorLog = log.New(io.Discard, "", 0)
	stranger.StartTLS()
	defer plain.Close()
	defer stranger.Close()
	for name, server := range map[string]string{"no TLS": "https" + strings.TrimPrefix(plain.URL, "http"), "no certificate that is known": stranger.URL} {
		c, err := New(Config{Server: server})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var unreachable *UnreachableError
		if _, err := c.Stream(t.Context(), Arguments{}, nil); !errors.As(err, &unreachable) || !strings.HasPrefix(err.Error(), "no node answers at "+server+": ") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := c.Execute(t.Context(), Arguments{}); !errors.As(err, &unreachable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRequestsOnTheWire(t *testing.T) {
	var method, path, body string
	var header http.Header
	answers := map[string]string{}
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		method, path, body, header = r.Method, r.URL.RequestURI(), string(text), r.Header.Clone()
		fmt.Fprint(w, answers[path])
	}))
	ctx := t.Context()
	name, id := "a b", 3
	lang := "bash"
	for _, row := range []struct {
		answer, method, path, body string
		call                       func() error
	}{
		{`{"sessions":[],"limit":20}`, "POST", "/v1/tools/list_sessions", "{}\n", func() error { _, err := c.ListSessions(ctx); return err }},
		{`{}`, "POST", "/v1/tools/inspect_state", `{"session_name":"a b","detail":"full"}` + "\n", func() error { _, err := c.InspectState(ctx, Selector{SessionName: &name}, "full"); return err }},
		{`{"closed":true}`, "POST", "/v1/tools/close_session", `{"session_id":3,"language":"bash"}` + "\n", func() error {
			got, err := c.CloseSession(ctx, Selector{SessionID: &id, Language: &lang})
			if !got.Closed {
				t.Error("closed is lost")
			}
			return err
		}},
		{`{}`, "POST", "/v1/tools/reset_session", `{"session_name":"a b"}` + "\n", func() error { _, err := c.ResetSession(ctx, Selector{SessionName: &name}); return err }},
		{`{}`, "POST", "/v1/tools/fork_session", `{"session_name":"a b","new_name":"c"}` + "\n", func() error { _, err := c.ForkSession(ctx, Selector{SessionName: &name}, "c"); return err }},
		{`{"ok":1}`, "POST", "/v1/executions/a%2Fb/stop", "{}\n", func() error { _, err := c.Stop(ctx, "a/b"); return err }},
		{`{}`, "POST", "/v1/executions/c/ask", `{"code":"a<b && c"}` + "\n", func() error { _, err := c.Ask(ctx, "c", "a<b && c"); return err }},
		{`{}`, "POST", "/v1/executions/c/interject", `{"message":"hi"}` + "\n", func() error { _, err := c.Interject(ctx, "c", "hi"); return err }},
		{`{}`, "POST", "/v1/executions/c/answer", `{"answer":"42","id":"q1"}` + "\n", func() error { _, err := c.Answer(ctx, "c", "q1", "42"); return err }},
		{`{}`, "POST", "/v1/executions/c/primitives/7", `{"result":[1]}` + "\n", func() error {
			return c.AnswerPrimitive(ctx, "c", "7", PrimitiveOutcome{Result: json.RawMessage("[1]")})
		}},
		{`{"executions":[{"call_id":"c"}]}`, "GET", "/v1/executions", "", func() error {
			got, err := c.Executions(ctx, gateway.ExecutionQuery{})
			if len(got.Executions) != 1 {
				t.Error("the list is lost")
			}
			return err
		}},
		{`{"executions":[{"call_id":"c"}]}`, "GET", "/v1/executions?before=call_1&limit=2&status=running", "", func() error {
			got, err := c.Executions(ctx, gateway.ExecutionQuery{Status: "running", Before: "call_1", Limit: 2})
			if len(got.Executions) != 1 {
				t.Error("the list is lost")
			}
			return err
		}},
		{doneResult, "GET", "/v1/executions/c", "", func() error { _, err := c.Execution(ctx, "c"); return err }},
		{`{"nodes":[{"id":"n"}]}`, "GET", "/v1/nodes", "", func() error { _, err := c.Nodes(ctx); return err }},
		{`{"actors":[{"name":"n"}]}`, "GET", "/v1/actors", "", func() error { _, err := c.Actors(ctx); return err }},
		{`{"token":"secret"}`, "POST", "/v1/actors", `{"name":"x"}` + "\n", func() error { _, err := c.CreateActor(ctx, gateway.NewActor{Name: "x"}); return err }},
		{`{}`, "DELETE", "/v1/actors/x%3F", "", func() error { _, err := c.EndActor(ctx, "x?"); return err }},
		{`{"id":"n","draining":true}`, "POST", "/v1/nodes/n%2F1/drain", `{"draining":true}` + "\n", func() error {
			got, err := c.DrainNode(ctx, "n/1", true)
			if !got.Draining {
				t.Error("draining is lost")
			}
			return err
		}},
		{`{}`, "POST", "/v1/nodes/n/drain", `{"draining":false}` + "\n", func() error { _, err := c.DrainNode(ctx, "n", false); return err }},
		{`{}`, "POST", "/v1/nodes/n/labels", `{"labels":{"zone":"a"}}` + "\n", func() error { _, err := c.LabelNode(ctx, "n", map[string]string{"zone": "a"}); return err }},
		{`{}`, "DELETE", "/v1/nodes/n", "", func() error { _, err := c.RemoveNode(ctx, "n"); return err }},
		{`{"tokens":[{"id":"t"}]}`, "GET", "/v1/tokens", "", func() error {
			got, err := c.Tokens(ctx)
			if len(got.Tokens) != 1 {
				t.Error("the list is lost")
			}
			return err
		}},
		{`{"id":"t","token":"secret"}`, "POST", "/v1/tokens", `{"role":"node","ttl_s":60,"uses":2,"labels":{"a":"b"}}` + "\n", func() error {
			got, err := c.CreateToken(ctx, gateway.NewToken{Role: "node", TTLS: 60, Uses: 2, Labels: map[string]string{"a": "b"}})
			if got.Token != "secret" {
				t.Error("the token is lost")
			}
			return err
		}},
		{`{}`, "DELETE", "/v1/tokens/t", "", func() error { _, err := c.RevokeToken(ctx, "t"); return err }},
		{`{"phase":"stable"}`, "GET", "/v1/authority", "", func() error {
			got, err := c.Authority(ctx)
			if got.Phase != "stable" {
				t.Error("the phase is lost")
			}
			return err
		}},
		{`{}`, "POST", "/v1/authority", `{"step":"begin"}` + "\n", func() error { _, err := c.RotateAuthority(ctx, "begin"); return err }},
		{`{}`, "GET", "/v1/status", "", func() error { _, err := c.Status(ctx); return err }},
	} {
		answers[row.path] = row.answer
		if err := row.call(); err != nil {
			t.Errorf("%s: %v", row.path, err)
		}
		if method != row.method || path != row.path || body != row.body {
			t.Errorf("sent %s %s %q, want %s %s %q", method, path, body, row.method, row.path, row.body)
		}
		if header.Get("Authorization") != "Bearer tok" || (body != "") != (header.Get("Content-Type") == "application/json") {
			t.Errorf("%s: headers %v", row.path, header)
		}
	}
}

// What is done under a trace is done under it at the node, too.
func TestTraceContextIsPropagated(t *testing.T) {
	var header http.Header
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header = r.Header.Clone()
		fmt.Fprint(w, `{"call_id":"c","status":"done"}`)
	}))
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, want := range []string{"", parent} {
		ctx := tracing.FromMeta(t.Context(), map[string]any{"traceparent": want})
		if _, err := c.Execute(ctx, Arguments{Code: "1"}); err != nil {
			t.Fatal(err)
		}
		if got := header.Get("traceparent"); got != want {
			t.Errorf("sent %q, not %q", got, want)
		}
	}
}

func TestRefusalsAreTyped(t *testing.T) {
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, refusedResult("forbidden", "auth"))
	}))
	_, err := c.Actors(t.Context())
	var refused *RefusedError
	var refusal *surfaces.Refusal
	if !errors.As(err, &refused) || refused.HTTPStatus != 403 || !errors.As(err, &refusal) || refusal.Code != surfaces.CodeForbidden || refusal.Suggestion != "do otherwise" {
		t.Errorf("%#v", err)
	}
}

func TestRequestsWithoutAnAnswer(t *testing.T) {
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/nodes" {
			panic(http.ErrAbortHandler)
		}
		<-r.Context().Done()
	}), func(cfg *Config) { cfg.RequestTimeout = 300 * time.Millisecond })
	var unanswered *NoAnswerError
	if _, err := c.Nodes(t.Context()); !errors.As(err, &unanswered) || unanswered.Err == nil {
		t.Errorf("a broken connection: %v, want Unanswered", err)
	}
	unanswered = nil
	if _, err := c.Status(t.Context()); !errors.As(err, &unanswered) || unanswered.Err != nil {
		t.Errorf("a silent node: %v, want Unanswered", err)
	}
}

// A failure that is no fault of the request comes with status 200. It is an error
// of the tools, and the answer of a call.
func TestFailuresWithStatus200(t *testing.T) {
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"call_id":"c","status":"failed","error":"It is gone.","error_type":"state_lost","code":"session_lost","state_lost":false}`)
	}))
	_, err := c.InspectState(t.Context(), Selector{}, "")
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.HTTPStatus != 200 || *refused.Result.Code != surfaces.CodeSessionLost {
		t.Errorf("of a tool: %v", err)
	}
	result, err := c.Execution(t.Context(), "c")
	if err != nil || *result.Code != surfaces.CodeSessionLost {
		t.Errorf("of a call: %v", err)
	}
}

func TestExecuteLostReplyIsBroken(t *testing.T) {
	c := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	_, err := c.Execute(t.Context(), Arguments{Code: "x"})
	var broken *ConnectionLostError
	if !errors.As(err, &broken) {
		t.Errorf("%v, want Broken", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Execute(ctx, Arguments{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the context's", err)
	}
}

func TestEventsEndWithTheConnection(t *testing.T) {
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"seq\":1,\"kind\":\"call_started\"}\n\ndata: {\"seq\":2,\"kind\":\"call_ended\"}\n\n")
	}))
	var kinds []string
	err := c.Events(t.Context(), func(ev gateway.MeshEvent) error { kinds = append(kinds, ev.Kind); return nil })
	if !errors.Is(err, io.ErrUnexpectedEOF) || fmt.Sprint(kinds) != "[call_started call_ended]" {
		t.Errorf("%v %v", kinds, err)
	}
}
