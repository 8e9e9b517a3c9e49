package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

// Without a node the command says how to start one, and prints nothing on standard output.
func TestMCPWithoutANode(t *testing.T) {
	s := command(t, nil, "")
	if status := s.a.run(t.Context(), []string{"mcp"}); status != surfaces.ExitUnavailable || s.out.String() != "" || !strings.Contains(s.err.String(), "locus up") {
		t.Errorf("status %d, out %q, err %q, want %d, nothing, and how to start a node", status, s.out.String(), s.err.String(), surfaces.ExitUnavailable)
	}
}

// runMCP runs locus mcp with an input that send writes lines to. end closes it and returns the
// exit status.
func runMCP(t *testing.T, s *session, flags ...string) (send func(lines ...string), end func() int) {
	t.Helper()
	in, feed := io.Pipe()
	s.a.in = in
	ended := make(chan int, 1)
	go func() {
		status := s.a.run(t.Context(), append([]string{"mcp"}, flags...))
		in.Close() // so that nothing is written to a command that has ended
		ended <- status
	}()
	send = func(lines ...string) {
		t.Helper()
		if _, err := io.WriteString(feed, strings.Join(lines, "\n")+"\n"); err != nil {
			t.Fatalf("%v: status %d, %s", err, <-ended, s.err.String())
		}
	}
	send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	return send, func() int {
		feed.Close()
		return <-ended
	}
}

// The command keeps running when its node ends, and says what to do while there is none.
func TestMCPOutlivesItsNode(t *testing.T) {
	server := httptest.NewServer(&fakeNode{answers: map[string]answer{
		"GET /v1/status":               {http.StatusOK, `{}`},
		"POST /v1/tools/list_sessions": {http.StatusOK, `{"sessions":[],"limit":20}`},
	}})
	t.Cleanup(server.Close)
	s := command(t, nil, "")
	send, end := runMCP(t, s, "--server", server.URL)
	send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list_sessions"}}`)
	eventually(t, "an answer of the node", func() bool { return strings.Contains(s.out.String(), `"limit":20`) })
	server.Close()
	id := 3
	eventually(t, "advice", func() bool {
		// The first call may still use the old connection, whose end gives a less precise error.
		send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"list_sessions"}}`, id))
		id++
		return strings.Contains(s.out.String(), "start one with: locus up")
	})
	if status := end(); status != 0 {
		t.Errorf("status %d, want 0: %s", status, s.err.String())
	}
	for line := range strings.Lines(s.out.String()) {
		var message struct{ JSONRPC string }
		if json.Unmarshal([]byte(line), &message) != nil || message.JSONRPC != "2.0" {
			t.Errorf("on standard output: %q", line)
		}
	}
}

// A call that the client cancels is stopped at once.
func TestMCPStopsACancelledCall(t *testing.T) {
	n := &fakeNode{
		answers: map[string]answer{"GET /v1/status": {http.StatusOK, `{}`}, "POST /v1/executions/c1/stop": {http.StatusOK, `{"done":true}`}},
		stream:  events("started", `{"call_id":"c1","node":"n1"}`), hold: true,
	}
	s := command(t, n, "")
	send, end := runMCP(t, s)
	send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"execute_code","arguments":{"code":"x","language":"python"},"_meta":{"progressToken":1}}}`)
	eventually(t, "the call is known", func() bool { return strings.Contains(s.out.String(), "call c1 started") })
	send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	eventually(t, "it is stopped", func() bool {
		return slices.ContainsFunc(n.requests(), func(r string) bool { return strings.HasPrefix(r, "POST /v1/executions/c1/stop") })
	})
	if status := end(); status != 0 {
		t.Errorf("status %d, want 0: %s", status, s.err.String())
	}
}
