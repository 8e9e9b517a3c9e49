package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/locusrun/locus/surfaces"
)

func TestToolsAreThoseOfTheHTTPAPI(t *testing.T) {
	for _, version := range versions {
		c, ctx := connect(t, &fakeNode{}, version, nil)
		list, err := c.ListTools(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range list.Tools {
			names = append(names, tool.Name)
			want, err := surfaces.Schemas()[tool.Name].JSON()
			if err != nil {
				t.Fatal(err)
			}
			var schema any
			if err := json.Unmarshal(want, &schema); err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(schema) != fmt.Sprint(tool.InputSchema) {
				t.Errorf("%s takes %v", tool.Name, tool.InputSchema)
			}
			if tool.OutputSchema == nil || tool.Title == "" || tool.Description == "" {
				t.Errorf("%s is described by %+v", tool.Name, tool)
			}
			looks := tool.Name == surfaces.ToolList || tool.Name == surfaces.ToolInspect
			ends := tool.Name == surfaces.ToolClose || tool.Name == surfaces.ToolReset || tool.Name == surfaces.ToolExecute
			if a := tool.Annotations; a.ReadOnlyHint != looks || *a.DestructiveHint != ends || *a.OpenWorldHint != (tool.Name == surfaces.ToolExecute) {
				t.Errorf("%s has the hints %+v", tool.Name, a)
			}
		}
		for _, tool := range surfaces.Tools() {
			if !slices.Contains(names, tool.Name) {
				t.Errorf("%s is not served", tool.Name)
			}
		}
		if len(names) != len(surfaces.Tools()) {
			t.Errorf("%v are served", names)
		}
	}
	if n := utf8.RuneCountInString(instructions); n > 1500 {
		t.Errorf("the instructions have %d characters", n)
	}
}

func TestResultIsStructuredContentAndText(t *testing.T) {
	node := &fakeNode{script: func(c *fakeCall) surfaces.Result {
		r := done(`{"a":[1,null]}`)
		kind := "dict"
		r.Stdout, r.ResultType = "printed\n", &kind
		r.Display = []surfaces.Display{{MIME: "text/plain", Data: "as text"}, {MIME: "image/png", Data: "iVBORw=="}, {MIME: "text/html", Data: "<b>"}, {MIME: "application/pdf", Data: "JVBERg=="}}
		return r
	}}
	c, ctx := connect(t, node, "2025-11-25", nil)
	res, err := c.run(ctx, surfaces.ToolExecute, `{"code":"<x> & é","language":"python","atomic":null}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := said(t, res); got != "stdout: printed\nresult (dict): {\"a\":[1,null]}\n" || res.IsError {
		t.Errorf("said %q, error %v", got, res.IsError)
	}
	if r := structured(t, res); string(r.Result) != `{"a":[1,null]}` || r.Stdout != "printed\n" || r.CallID != "c1" || len(r.Display) != 4 {
		t.Errorf("the object is %+v", r)
	}
	if len(res.Content) != 4 {
		t.Fatalf("content %+v", res.Content)
	}
	if image := res.Content[1].(*sdk.ImageContent); string(image.Data) != "\x89PNG" || image.MIMEType != "image/png" {
		t.Errorf("image %+v", image)
	}
	if html := res.Content[2].(*sdk.EmbeddedResource).Resource; html.Text != "<b>" || html.MIMEType != "text/html" || html.URI != "locus://calls/c1/display/2" {
		t.Errorf("html %+v", html)
	}
	if pdf := res.Content[3].(*sdk.EmbeddedResource).Resource; string(pdf.Blob) != "%PDF" {
		t.Errorf("pdf %+v", pdf)
	}
	if node.sent[0] != `{"code":"<x> & é","language":"python","atomic":null}` && !strings.Contains(node.sent[0], `\u003cx\u003e`) {
		t.Errorf("the node was sent %s", node.sent[0])
	}
}

func TestFailedCallIsAToolError(t *testing.T) {
	node := &fakeNode{script: func(c *fakeCall) surfaces.Result {
		return (&surfaces.Refusal{Code: surfaces.CodeStatelessWithSession, Message: "stateless has no session", Suggestion: "Drop session_name."}).Result(surfaces.Partial{CallID: "c1"})
	}}
	c, ctx := connect(t, node, "2026-07-28", nil)
	for _, tt := range []struct {
		name, tool string
		failed     error
		code       surfaces.Code
		says       string
	}{
		{"refused", surfaces.ToolExecute, nil, surfaces.CodeStatelessWithSession, "suggestion: Drop session_name."},
		{"fault", surfaces.ToolExecute, errors.New("a secret"), surfaces.CodeInternal, "id-7"},
		{"tool refused", surfaces.ToolClose, nil, surfaces.CodeSessionMismatch, "Drop session_id."},
		{"panic", surfaces.ToolReset, nil, surfaces.CodeInternal, "id-7"},
	} {
		node.mu.Lock()
		node.failed = tt.failed
		node.mu.Unlock()
		res, err := c.run(ctx, tt.tool, `{}`, nil)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		r := structured(t, res)
		if !res.IsError || r.Code == nil || *r.Code != tt.code || !strings.Contains(said(t, res), tt.says) || strings.Contains(said(t, res), "secret") {
			t.Errorf("%s: error %v, %q, %+v", tt.name, res.IsError, said(t, res), r)
		}
	}
	if _, err := c.run(ctx, "no_such_tool", `{}`, nil); err == nil {
		t.Error("a tool that is not there was run")
	}
	if res, err := c.run(ctx, surfaces.ToolList, `null`, nil); err != nil || said(t, res) != `{"sessions":[],"limit":20}` || node.sent[len(node.sent)-1] != "list_sessions {}" {
		t.Errorf("%v %v", err, node.sent)
	}
}

func TestProgressMessagesAreCoalesced(t *testing.T) {
	const lines = 20_000
	node := &fakeNode{script: func(c *fakeCall) surfaces.Result {
		c.say("notify", map[string]string{"text": "half way"})
		for i := range lines {
			c.print(fmt.Sprintf("line %d\n", i))
		}
		c.say("notice", map[string]string{"kind": "environment", "text": "built"})
		return done("null")
	}}
	for _, version := range versions {
		c, ctx := connect(t, node, version, nil)
		if _, err := c.run(ctx, surfaces.ToolExecute, `{}`, "token-1"); err != nil {
			t.Fatal(err)
		}
		// The client handles notifications beside results.
		eventually(t, "the last message", func() bool {
			told := c.progress()
			return len(told) > 0 && strings.HasSuffix(told[len(told)-1].Message, "environment: built\n")
		})
		last, all := 0.0, ""
		for _, p := range c.progress() {
			if p.Progress <= last || p.ProgressToken != "token-1" || len(p.Message) > progressText+10 {
				t.Errorf("%v after %v, token %v, %d bytes", p.Progress, last, p.ProgressToken, len(p.Message))
			}
			last = p.Progress
			all += p.Message
		}
		if !strings.Contains(all, fmt.Sprintf("line %d\n", lines-1)) || !strings.Contains(all, "[…]") {
			t.Errorf("%s: the messages are %.200q … %.200q", version, all, tail(all, 200))
		}
		if n := len(c.progress()); n > lines/100 {
			t.Errorf("%s: %d messages", version, n)
		}
	}
	c, ctx := connect(t, node, "2025-11-25", nil)
	if _, err := c.run(ctx, surfaces.ToolExecute, `{}`, nil); err != nil {
		t.Fatal(err)
	}
	if told := c.progress(); len(told) > 0 {
		t.Errorf("%d messages that nobody wanted", len(told))
	}
}

// waits is a call that ends only by being stopped.
func waits(c *fakeCall) surfaces.Result {
	<-c.stopped
	return done("null")
}

func TestCancellationStopsTheCall(t *testing.T) {
	for _, version := range versions {
		node := &fakeNode{script: waits}
		c, ctx := connect(t, node, version, nil)
		calling, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() {
			_, err := c.run(calling, surfaces.ToolExecute, `{}`, nil)
			ended <- err
		}()
		eventually(t, "the call runs", func() bool { return node.running() != nil })
		// Other requests are answered meanwhile.
		if _, err := c.run(ctx, surfaces.ToolList, `{}`, nil); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: the client got %v", version, err)
		}
		select {
		case <-node.running().stopped:
		case <-ctx.Done():
			t.Errorf("%s: the call goes on", version)
		}
	}
}

// A client that has gone closes both pipes, and its calls are stopped.
func TestTheEndOfTheClientStopsCallsAndTheServer(t *testing.T) {
	node := &fakeNode{script: waits}
	c, ctx := connect(t, node, "2025-11-25", nil)
	go func() { _, _ = c.run(ctx, surfaces.ToolExecute, `{}`, nil) }()
	eventually(t, "the call runs", func() bool { return node.running() != nil })
	c.gone.Store(true)
	if err := c.hangUp(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-node.running().stopped:
	case <-ctx.Done():
		t.Error("the call goes on")
	}
}

func TestClarificationsAreElicited(t *testing.T) {
	for _, version := range versions {
		node := &fakeNode{}
		node.script = func(c *fakeCall) surfaces.Result {
			c.print("before")
			first := c.ask("q1", "which color?")
			second := c.ask("q2", "which size?")
			value, _ := json.Marshal([]string{first, second})
			return done(string(value))
		}
		var asked []string
		c, ctx := connect(t, node, version, func(question string) *sdk.ElicitResult {
			asked = append(asked, question)
			return accept("answer to " + question)
		})
		res, err := c.run(ctx, surfaces.ToolExecute, `{}`, 7)
		if err != nil {
			t.Fatalf("%s: %v", version, err)
		}
		if r := structured(t, res); string(r.Result) != `["q1: answer to which color?","q2: answer to which size?"]` || node.calls != 1 || len(asked) != 2 {
			t.Errorf("%s: %s by %d calls, asked %q", version, r.Result, node.calls, asked)
		}
	}
}

func TestUnansweredClarificationsAreReported(t *testing.T) {
	for _, version := range versions {
		for name, elicit := range map[string]func(string) *sdk.ElicitResult{
			"cannot be asked": nil,
			"declines":        func(string) *sdk.ElicitResult { return &sdk.ElicitResult{Action: "decline"} },
		} {
			node := &fakeNode{}
			given := make(chan struct{})
			node.script = func(c *fakeCall) surfaces.Result {
				c.say("clarification", map[string]string{"id": "q1", "question": "which color?"})
				<-given // the code's own patience
				return done("null")
			}
			c, ctx := connect(t, node, version, elicit)
			go func() {
				for said := false; !said && ctx.Err() == nil; {
					for _, p := range c.progress() {
						said = said || strings.Contains(p.Message, "locus calls answer --id q1 c1")
					}
				}
				close(given)
			}()
			res, err := c.run(ctx, surfaces.ToolExecute, `{}`, 7)
			if err != nil {
				t.Fatalf("%s, %s: %v", version, name, err)
			}
			if !strings.Contains(said(t, res), "which color?") {
				t.Errorf("%s, %s: the result says %q", version, name, said(t, res))
			}
		}
	}
}

func TestARoundThatWasNotGivenHereIsRefused(t *testing.T) {
	c, ctx := connect(t, &fakeNode{script: waits}, "2026-07-28", func(string) *sdk.ElicitResult { return accept("x") })
	for _, state := range []string{`{}`, `nonsense`, `{"call":"c1","from":-1}`, `{"call":"somebody else's"}`} {
		res, err := c.CallTool(ctx, &sdk.CallToolParams{Name: surfaces.ToolExecute, Arguments: json.RawMessage(`{}`), RequestState: state})
		if err != nil {
			t.Fatalf("%s: %v", state, err)
		}
		if r := structured(t, res); !res.IsError || r.Code == nil || *r.Code != surfaces.CodeInvalidArgument {
			t.Errorf("%s: %+v, want IsError, Code %v", state, r, surfaces.CodeInvalidArgument)
		}
	}
}

func TestPrimitivesOfTheCallerAreDeclined(t *testing.T) {
	node := &fakeNode{}
	node.script = func(c *fakeCall) surfaces.Result {
		c.say("primitive", map[string]any{"seq": 1, "name": "files.read", "args": map[string]any{}})
		value, _ := json.Marshal(<-c.answers)
		return done(string(value))
	}
	c, ctx := connect(t, node, "2025-11-25", nil)
	res, err := c.run(ctx, surfaces.ToolExecute, `{}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r := structured(t, res); !strings.Contains(string(r.Result), `1: {\"error\":{`) || !strings.Contains(string(r.Result), `\"unknown\"`) || !strings.Contains(string(r.Result), "files.read") {
		t.Errorf("the code was told %s", r.Result)
	}
}
