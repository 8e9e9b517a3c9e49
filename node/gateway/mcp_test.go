package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/locusrun/locus/surfaces"
)

// asMCP makes a request one of the protocol.
func asMCP(r *http.Request) {
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
}

func in(session string) func(*http.Request) { return header("Mcp-Session-Id", session) }

const (
	mcpInitialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	mcpList       = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
)

// mcpCall is a message that runs a program.
func mcpCall(id int, code string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"execute_code","arguments":%s}}`, id, program(code))
}

// told gives the message that answers a request, out of a stream or as it is.
func told(t *testing.T, body string) (message struct {
	Result struct {
		IsError           bool            `json:"isError"`
		StructuredContent surfaces.Result `json:"structuredContent"`
		Tools             []any           `json:"tools"`
	} `json:"result"`
	Error *struct{ Message string } `json:"error"`
}) {
	t.Helper()
	for line := range strings.Lines(body) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			body = data
		}
	}
	if err := json.Unmarshal([]byte(body), &message); err != nil {
		t.Fatalf("%v in %q", err, body)
	}
	return message
}

// mcpSession begins a session of alice.
func mcpSession(t *testing.T, url string) string {
	t.Helper()
	resp, body := send(t, request(t, "POST", url+mcpPath, mcpInitialize, asMCP))
	id := resp.Header.Get("Mcp-Session-Id")
	if resp.StatusCode != 200 || id == "" {
		t.Fatalf("%d, session %q: %s", resp.StatusCode, id, body)
	}
	return id
}

func TestMCPWithAndWithoutASession(t *testing.T) {
	log := &logBook{}
	_, srv := serve(t, newFake(), func(c *Config) { c.Log = log.logger() })
	url := srv.URL + mcpPath
	session := mcpSession(t, srv.URL)
	for name, edit := range map[string]func(*http.Request){"with": in(session), "without": func(*http.Request) {}} {
		resp, body := send(t, request(t, "POST", url, mcpList, asMCP, edit))
		if n := len(told(t, body).Result.Tools); resp.StatusCode != 200 || n != len(surfaces.Tools()) {
			t.Errorf("%s a session: %d, %d tools", name, resp.StatusCode, n)
		}
		resp, body = send(t, request(t, "POST", url, mcpCall(3, "1"), asMCP, edit))
		if r := told(t, body).Result; resp.StatusCode != 200 || r.IsError || r.StructuredContent.Status != surfaces.StatusDone {
			t.Errorf("%s a session: %d, %s", name, resp.StatusCode, body)
		}
		_, body = send(t, request(t, "POST", url, mcpCall(4, "code=exception"), asMCP, edit))
		if r := told(t, body).Result; !r.IsError || *r.StructuredContent.Code != surfaces.CodeException {
			t.Errorf("%s a session: %s", name, body)
		}
		_, body = send(t, request(t, "POST", url, mcpCall(5, "panic"), asMCP, edit))
		if r := told(t, body).Result; !r.IsError || *r.StructuredContent.Code != surfaces.CodeInternal || strings.Contains(body, "told to") {
			t.Errorf("%s a session, a panic: %s", name, body)
		}
	}
	if resp, _ := send(t, request(t, "POST", url, mcpList, asMCP, in(session), header("Authorization", "Bearer bob"))); resp.StatusCode != 404 {
		t.Errorf("bob in alice's session: %d", resp.StatusCode)
	}
	if resp, _ := send(t, request(t, "DELETE", url, "", in(session))); resp.StatusCode != 204 {
		t.Errorf("its end: %d", resp.StatusCode)
	}
	eventually(t, "a line with a call", func() bool { return strings.Contains(log.text(), `"call_id":"call-1"`) })
	if !strings.Contains(log.text(), "the fake was told to") {
		t.Error("the log has no word of the panic")
	}
	_, metrics := send(t, request(t, "GET", srv.URL+"/metrics", ""))
	for _, want := range []string{`locus_requests_total{door="mcp",route="POST /mcp",status="200"}`, `locus_calls_total{language="python",mode="stateless",status="done"} 2`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics have no %s", want)
		}
	}
}

func TestMCPIsGuardedAsEveryRoute(t *testing.T) {
	_, srv := serve(t, newFake(), func(c *Config) { c.MaxBody = 1000 })
	for _, tt := range []struct {
		name, method, body string
		edit               func(*http.Request)
		status             int
	}{
		{"nobody", "POST", mcpInitialize, header("Authorization", ""), 401},
		{"somebody else", "POST", mcpInitialize, header("Authorization", "Bearer mallory"), 401},
		{"nobody, other method", "PUT", "", header("Authorization", ""), 401},
		{"other site", "POST", mcpInitialize, header("Origin", "http://evil.example"), 403},
		{"re-pointed name", "POST", mcpInitialize, func(r *http.Request) { r.Host = "evil.example" }, 403},
		{"large", "POST", mcpCall(1, strings.Repeat("x", 2000)), asMCP, 413},
		{"no JSON", "POST", "a=b", header("Content-Type", "text/plain"), 415},
		{"other method", "PUT", mcpInitialize, asMCP, 405},
		{"no session", "GET", "", asMCP, 400},
		{"unknown session", "GET", "", in("made up"), 404},
		{"unknown session", "DELETE", "", in("made up"), 404},
		{"nonsense", "POST", "{", func(r *http.Request) { asMCP(r); in("")(r) }, 400},
	} {
		resp, body := send(t, request(t, tt.method, srv.URL+mcpPath, tt.body, asMCP, tt.edit))
		if resp.StatusCode != tt.status {
			t.Errorf("%s: %d %s, want status %v", tt.name, resp.StatusCode, body, tt.status)
		}
		if tt.status == 401 && resp.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: nothing says how to authenticate", tt.name)
		}
	}
}

// hanging keeps calls running until their fake is told otherwise.
func hanging() (*fake, chan *fakeCall) {
	f := newFake()
	calls := make(chan *fakeCall, 8)
	f.onStart = func(c *fakeCall) { calls <- c }
	return f, calls
}

// start sends a request that stays open, and gives its call when that runs.
func start(t *testing.T, calls chan *fakeCall, r *http.Request) (call *fakeCall, leave func(), body chan string) {
	t.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	body = make(chan string, 1)
	go func() {
		resp, err := http.DefaultClient.Do(r.WithContext(ctx))
		if err != nil {
			body <- err.Error()
			return
		}
		defer resp.Body.Close()
		var all strings.Builder
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			all.WriteString(lines.Text() + "\n")
		}
		body <- all.String()
	}()
	select {
	case call = <-calls:
	case <-r.Context().Done():
		t.Fatal("the call does not start")
	}
	eventually(t, "it is followed", func() bool { return call.following() == 1 })
	return call, cancel, body
}

func abandoned(t *testing.T, what string, call *fakeCall) {
	t.Helper()
	eventually(t, what, func() bool {
		list := call.abandonments()
		return len(list) == 1 && list[0] == 0
	})
}

func TestAnMCPClientThatLeavesOrCancelsEndsItsCall(t *testing.T) {
	f, calls := hanging()
	_, srv := serve(t, f, nil)
	url := srv.URL + mcpPath
	session := mcpSession(t, srv.URL)

	call, leave, body := start(t, calls, request(t, "POST", url, mcpCall(2, "1"), asMCP))
	leave()
	<-body
	abandoned(t, "one without a session leaves", call)

	call, leave, body = start(t, calls, request(t, "POST", url, mcpCall(2, "1"), asMCP, in(session)))
	leave()
	<-body
	abandoned(t, "one with a session leaves", call)

	call, _, body = start(t, calls, request(t, "POST", url, mcpCall(3, "1"), asMCP, in(session)))
	if resp, text := send(t, request(t, "POST", url, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`, asMCP, in(session))); resp.StatusCode != 202 {
		t.Fatalf("%d %s, want status 202", resp.StatusCode, text)
	}
	abandoned(t, "it is cancelled", call)
	<-body

	call, _, body = start(t, calls, request(t, "POST", url, mcpCall(4, "1"), asMCP, in(session)))
	if resp, _ := send(t, request(t, "DELETE", url, "", in(session))); resp.StatusCode != 204 {
		t.Fatalf("got %d, want status 204", resp.StatusCode)
	}
	abandoned(t, "its session ends", call)
	<-body
}

func TestASilentMCPCallIsKeptAlive(t *testing.T) {
	f, calls := hanging()
	_, srv := serve(t, f, func(c *Config) { c.Heartbeat = 5 * time.Millisecond })
	r := request(t, "POST", srv.URL+mcpPath, mcpCall(2, "1"), asMCP)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	beat := make([]byte, len(heartbeat))
	if _, err := io.ReadFull(resp.Body, beat); err != nil || string(beat) != heartbeat {
		t.Fatalf("got %q, %v, want a heartbeat", beat, err)
	}
	(<-calls).finish()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if status := told(t, string(body)).Result.StructuredContent.Status; status != surfaces.StatusDone {
		t.Errorf("got %q, want status %s", body, surfaces.StatusDone)
	}
}

func TestMCPCallsTakeSlotsOfCalls(t *testing.T) {
	f, calls := hanging()
	_, srv := serve(t, f, func(c *Config) { c.MaxCalls, c.MaxControls = 1, 1 })
	url := srv.URL + mcpPath
	call, _, body := start(t, calls, request(t, "POST", url, mcpCall(2, "1"), asMCP))
	if resp, _ := send(t, request(t, "POST", url, mcpCall(3, "1"), asMCP)); resp.StatusCode != 503 {
		t.Errorf("one call more: %d", resp.StatusCode)
	}
	if resp, _ := send(t, request(t, "POST", url, mcpList, asMCP)); resp.StatusCode != 200 {
		t.Errorf("what is no call: %d", resp.StatusCode)
	}
	call.finish()
	<-body
}

func TestShutdownEndsMCPStreams(t *testing.T) {
	g, srv := serve(t, newFake(), nil)
	session := mcpSession(t, srv.URL)
	opened := make(chan struct{})
	ended := make(chan error, 1)
	r := request(t, "GET", srv.URL+mcpPath, "", asMCP, in(session))
	go func() {
		resp, err := http.DefaultClient.Do(r)
		close(opened)
		if err == nil {
			_, err = bufio.NewReader(resp.Body).ReadString(0)
			resp.Body.Close()
		}
		ended <- err
	}()
	<-opened
	g.Close()
	select {
	case err := <-ended:
		if err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the stream ended with %v", err)
		}
	case <-r.Context().Done():
		t.Error("the stream goes on")
	}
	eventually(t, "no session is left", func() bool {
		resp, _ := send(t, request(t, "POST", srv.URL+mcpPath, mcpList, asMCP, in(session)))
		return resp.StatusCode == 404
	})
}

// The library's own client gets along with the door, also when it is asked things,
// and every answer fits the schema that was given for it.
func TestMCPAnswersFitTheirSchemas(t *testing.T) {
	f := newFake()
	f.onStart = rich
	_, srv := serve(t, f, nil)
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		transport := &sdk.StreamableClientTransport{Endpoint: srv.URL + mcpPath, HTTPClient: &http.Client{Transport: bearerOf("alice")}}
		session, err := sdk.NewClient(&sdk.Implementation{Name: "t", Version: "1"}, nil).Connect(ctx, transport, &sdk.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatalf("%s: %v", version, err)
		}
		list, err := session.ListTools(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, refuse := range []error{nil, &surfaces.Refusal{Code: surfaces.CodeSessionNotFound, Message: "no", Suggestion: "another"}} {
			f.refuse = refuse
			for _, tool := range list.Tools {
				args := map[string]any{}
				if tool.Name == surfaces.ToolExecute {
					args = map[string]any{"code": "1", "language": "python"}
				}
				res, err := session.CallTool(ctx, &sdk.CallToolParams{Name: tool.Name, Arguments: args})
				if err != nil {
					t.Fatalf("%s, %s: %v", version, tool.Name, err)
				}
				if refuse != nil && !res.IsError {
					t.Errorf("%s, %s: a refusal is no error", version, tool.Name)
				}
				schema := tool.OutputSchema.(map[string]any)
				for _, fault := range misfits(schema, schema, res.StructuredContent, "$") {
					t.Errorf("%s, %s: %s", version, tool.Name, fault)
				}
			}
		}
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	}
}

// bearerOf sends requests as an actor.
type bearerOf string

func (b bearerOf) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}
