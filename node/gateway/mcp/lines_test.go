package mcp

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/locusrun/locus/surfaces"
)

// speaker is a client that writes what it likes.
type speaker struct {
	t   *testing.T
	in  *io.PipeWriter
	out *bufio.Reader
}

// speak serves a node to a speaker until the test ends.
func speak(t *testing.T, node Node) *speaker {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	toServer, in := io.Pipe()
	out, fromServer := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- Serve(ctx, Config{Version: "test", Outputs: outputs()}, node, toServer, fromServer)
	}()
	t.Cleanup(func() {
		in.Close()
		go io.Copy(io.Discard, out)
		if err := <-served; err != nil {
			t.Errorf("Serve ended with %v", err)
		}
		cancel()
	})
	return &speaker{t, in, bufio.NewReader(out)}
}

func (s *speaker) say(lines ...string) {
	s.t.Helper()
	if _, err := io.WriteString(s.in, strings.Join(lines, "\n")+"\n"); err != nil {
		s.t.Fatal(err)
	}
}

// spokenReply is an answer, with the parts that tell answers apart.
type spokenReply struct {
	ID    any
	Error *struct {
		Code    int
		Message string
	}
	Result json.RawMessage
}

func (s *speaker) reply() spokenReply {
	s.t.Helper()
	line, err := s.out.ReadBytes('\n')
	var r spokenReply
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	if err != nil {
		s.t.Fatalf("%v in %q", err, line)
	}
	return r
}

func pinging(id int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, id) }

const greeting = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// What is no message is answered as what it is, and a call that runs goes on.
func TestInvalidLineIsAParseError(t *testing.T) {
	release := make(chan struct{})
	s := speak(t, &fakeNode{script: func(*fakeCall) surfaces.Result { <-release; return done("7") }})
	s.say(greeting)
	s.reply()
	s.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"execute_code","arguments":{"code":"7","language":"python"}}}`)
	for _, tt := range []struct {
		line string
		code int
		id   any
	}{
		{"{this is no JSON", jsonrpc.CodeParseError, nil},
		{"\xff\xfe", jsonrpc.CodeParseError, nil},
		{strings.Repeat("[", 20000), jsonrpc.CodeParseError, nil},
		{`{"jsonrpc":"2.0","id":3,"method":`, jsonrpc.CodeParseError, nil},
		{"7", jsonrpc.CodeInvalidRequest, nil},
		{"null", jsonrpc.CodeInvalidRequest, nil},
		{"[]", jsonrpc.CodeInvalidRequest, nil},
		{"[1]", jsonrpc.CodeInvalidRequest, nil},
		{"{}", jsonrpc.CodeInvalidRequest, nil},
		{`{"jsonrpc":"1.0","id":"a","method":"ping"}`, jsonrpc.CodeInvalidRequest, "a"},
		{`{"jsonrpc":"2.0","id":4,"method":5}`, jsonrpc.CodeInvalidRequest, 4.0},
		{`{"jsonrpc":"2.0","id":{},"method":"ping"}`, jsonrpc.CodeInvalidRequest, nil},
		{`{"jsonrpc":"2.0","id":null,"method":"ping"}`, jsonrpc.CodeInvalidRequest, nil},
		{`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, jsonrpc.CodeInvalidRequest, 1.5},
		{`{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, jsonrpc.CodeInvalidRequest, 9007199254740992.0}, // as the test reads it
		{`{"jsonrpc":"2.0","id":9007199254740991,"method":"ping"}`, 0, 9007199254740991.0},
		{`{"jsonrpc":"2.0","id":-3e2,"method":"ping"}`, 0, -300.0},
		{"  \t" + pinging(5) + "\r", 0, 5.0},
	} {
		s.say("", tt.line)
		if r := s.reply(); r.ID != tt.id || (r.Error == nil) != (tt.code == 0) || r.Error != nil && r.Error.Code != tt.code {
			t.Errorf("%.50q: %+v", tt.line, r)
		}
	}
	s.say(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"an answer is not answered"}}`, "["+pinging(6)+`,{"id":7},`+pinging(8)+"]")
	for range 3 {
		switch r := s.reply(); {
		case r.ID == 6.0 && r.Error == nil, r.ID == 8.0 && r.Error == nil, r.ID == 7.0 && r.Error != nil:
		default:
			t.Errorf("of the list: %+v", r)
		}
	}
	close(release)
	if r := s.reply(); r.ID != 2.0 || !strings.Contains(string(r.Result), `"result":7`) {
		t.Errorf("the call that ran: %+v", r)
	}
}

// Who writes requests and closes the pipe reads all answers: also of what runs, and comes to
// its end after that of the input.
func TestPendingRequestsAreAnsweredAfterTheEndOfInput(t *testing.T) {
	release := make(chan struct{})
	node := &fakeNode{script: func(c *fakeCall) surfaces.Result {
		<-release
		return surfaces.Result{Status: surfaces.StatusDone, Stdout: "late"}
	}}
	s := speak(t, node)
	s.say(greeting, `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"execute_code","arguments":{"code":"x","language":"python"}}}`, pinging(3))
	if err := s.in.Close(); err != nil {
		t.Fatal(err)
	}
	answered := map[any]bool{}
	for range 2 {
		answered[s.reply().ID] = true
	}
	eventually(t, "the call runs", func() bool { return node.running() != nil })
	close(release)
	last := s.reply()
	answered[last.ID] = true
	if !answered[1.0] || !answered[2.0] || !answered[3.0] || !strings.Contains(string(last.Result), "late") {
		t.Fatalf("answered %v, last %s", answered, last.Result)
	}
	if line, err := s.out.ReadBytes('\n'); err != io.EOF {
		t.Fatalf("after all answers: %q, %v", line, err)
	}
}

// A line that is too long is dropped while it comes, and the next one is read.
func TestALineThatIsTooLong(t *testing.T) {
	in, feed := io.Pipe()
	out, written := io.Pipe()
	l := newLines(in, written, Config{})
	l.limit = 100
	if _, err := l.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for _, line := range []string{strings.Repeat("x", 20000), pinging(1) + strings.Repeat(" ", 101-len(pinging(1))), pinging(2)} {
			_, _ = io.WriteString(feed, line+"\n") // Read tells when it fails
		}
	}()
	replies := make(chan string, 2)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			replies <- lines.Text()
		}
	}()
	msg, err := l.Read(t.Context())
	if r, ok := msg.(*jsonrpc.Request); err != nil || !ok || r.ID.Raw() != int64(2) {
		t.Fatalf("%+v, %v", msg, err)
	}
	for range 2 {
		if reply := <-replies; !strings.Contains(reply, "at most 100 bytes") || !strings.Contains(reply, "-32600") {
			t.Errorf("answered %s", reply)
		}
	}
}

// A request that was cancelled gets no answer by pipes.
func TestACancelledRequestGetsNoAnswer(t *testing.T) {
	node := &fakeNode{script: func(c *fakeCall) surfaces.Result { <-c.stopped; return done("1") }}
	s := speak(t, node)
	s.say(greeting)
	s.reply()
	s.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"execute_code","arguments":{"code":"1","language":"python"}}}`)
	eventually(t, "the call runs", func() bool { return node.running() != nil })
	s.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	<-node.running().stopped
	for id := 3; ; id++ {
		s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"list_sessions"}}`, id))
		if r := s.reply(); r.ID == 2.0 {
			t.Fatalf("it is answered: %+v", r)
		}
		if id == 30 { // an answer would have been among the first
			return
		}
	}
}

// At the HTTP door, too, what is wrong is said by the protocol.
func TestInvalidBodyIsAParseError(t *testing.T) {
	_, url := door(t, Bounds{})
	for _, tt := range []struct {
		body, accept string
		code         int
		id           any
	}{
		{"{", "", jsonrpc.CodeParseError, nil},
		{"", "", jsonrpc.CodeParseError, nil},
		{"7", "", jsonrpc.CodeInvalidRequest, nil},
		{`{"jsonrpc":"1.0","id":"a","method":"ping"}`, "", jsonrpc.CodeInvalidRequest, "a"},
		{`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, "", jsonrpc.CodeInvalidRequest, 1.5},
		{`{"jsonrpc":"2.0","id":1e30,"method":"ping"}`, "", jsonrpc.CodeInvalidRequest, 1e30},
		{`{"jsonrpc":"2.0","id":null,"method":"ping"}`, "", jsonrpc.CodeInvalidRequest, nil},
		{pinging(3), "text/html", jsonrpc.CodeInvalidRequest, 3.0},
	} {
		resp, r := askByHTTP(t, url, tt.body, tt.accept)
		if resp.StatusCode != 400 || resp.Header.Get("Content-Type") != "application/json" || r.ID != tt.id || r.Error == nil || r.Error.Code != tt.code {
			t.Errorf("%q: %s, %+v", tt.body, resp.Status, r)
		}
	}
}

// askByHTTP sends a body to the HTTP door. The answer is taken to be one object of JSON, or the
// data of the last event.
func askByHTTP(t *testing.T, url, body, accept string) (*http.Response, spokenReply) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", cmp.Or(accept, "application/json, text/event-stream"))
	req.Header.Set("Authorization", "Bearer alice")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if at := bytes.LastIndex(text, []byte("data: ")); at >= 0 {
		text = text[at+len("data: "):]
	}
	var r spokenReply
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatalf("%q: %s, %v in %q", body, resp.Status, err, text)
	}
	return resp, r
}

// Of a method that there is none of, both doors say just that, and of no other.
func TestUnknownMethodIsRefused(t *testing.T) {
	asking := func(method string) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q}`, method) }
	s := speak(t, &fakeNode{})
	s.say(greeting)
	s.reply()
	s.say(asking("tools/forget"))
	if r := s.reply(); r.ID != 7.0 || r.Error == nil || r.Error.Code != jsonrpc.CodeMethodNotFound {
		t.Errorf("by pipes: %+v", r)
	}
	_, url := door(t, Bounds{})
	if resp, r := askByHTTP(t, url, asking("tools/forget"), ""); resp.StatusCode != 200 || r.ID != 7.0 || r.Error == nil || r.Error.Code != jsonrpc.CodeMethodNotFound {
		t.Errorf("by HTTP: %s, %+v", resp.Status, r)
	}
	for _, method := range methods {
		if resp, r := askByHTTP(t, url, asking(method), ""); r.ID != 7.0 || r.Error != nil && r.Error.Code == jsonrpc.CodeMethodNotFound {
			t.Errorf("%s: %s, %+v", method, resp.Status, r)
		}
	}
}

// A request whose id is that of one in flight is answered at once, and does not keep the
// server from ending. An id that was answered can be used again.
func TestDuplicateIDInFlightIsRefused(t *testing.T) {
	release := make(chan struct{})
	s := speak(t, &fakeNode{script: func(*fakeCall) surfaces.Result { <-release; return done("7") }})
	call := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"execute_code","arguments":{"code":"7","language":"python"}}}`
	s.say(greeting)
	s.reply()
	s.say(call, call)
	if r := s.reply(); r.ID != nil || r.Error == nil || r.Error.Code != jsonrpc.CodeInvalidRequest {
		t.Errorf("the second: %+v", r)
	}
	close(release)
	if r := s.reply(); r.ID != 2.0 || !strings.Contains(string(r.Result), `"result":7`) {
		t.Errorf("the first: %+v", r)
	}
	s.say(pinging(2))
	if r := s.reply(); r.ID != 2.0 || r.Error != nil {
		t.Errorf("after the answer: %+v", r)
	}
	if err := s.in.Close(); err != nil {
		t.Fatal(err)
	}
	if line, err := s.out.ReadBytes('\n'); err != io.EOF {
		t.Fatalf("after the end of the input: %q, %v", line, err)
	}
}

// A parameter of the wrong type is named in words that a client's author understands.
func TestAParameterOfTheWrongType(t *testing.T) {
	s := speak(t, &fakeNode{})
	s.say(greeting)
	s.reply()
	_, url := door(t, Bounds{})
	for _, tt := range []struct{ method, params, says string }{
		{"tools/call", `{"name":5}`, "params.name of tools/call must be a string, not of the type number"},
		{"tools/call", `{"name":"execute_code","_meta":[]}`, "params._meta of tools/call must be an object, not of the type array"},
		{"tools/call", `[1]`, "params of tools/call must be an object, not of the type array"},
		{"tools/list", `{"cursor":5}`, "params.cursor of tools/list must be a string, not of the type number"},
		{"resources/read", `{"uri":{}}`, "params.uri of resources/read must be a string, not of the type object"},
		{"initialize", `{"protocolVersion":5}`, "params.protocolVersion of initialize must be a string, not of the type number"},
		{"initialize", `{"clientInfo":{"name":true}}`, "params.clientInfo.name of initialize must be a string, not of the type bool"},
	} {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":%s}`, tt.method, tt.params)
		s.say(body)
		_, byHTTP := askByHTTP(t, url, body, "")
		for _, r := range []spokenReply{s.reply(), byHTTP} {
			if r.ID != 7.0 || r.Error == nil || r.Error.Code != jsonrpc.CodeInvalidParams || r.Error.Message != tt.says {
				t.Errorf("%s: %+v, want id 7.0, Error.Code %v, Error.Message %v", body, r, jsonrpc.CodeInvalidParams, tt.says)
			}
		}
	}
}
