package mcp

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/locusrun/locus/surfaces"
)

func TestACallCanBeReadWhileItRunsAndAfter(t *testing.T) {
	goOn := make(chan struct{})
	node := &fakeNode{script: func(*fakeCall) surfaces.Result {
		<-goOn
		r := done("42")
		r.Display = []surfaces.Display{{MIME: "image/png", Data: "iVBORw=="}, {MIME: "text/html", Data: "<b>"}, {MIME: "image/png", Data: "!"}}
		return r
	}}
	for _, version := range versions {
		c, ctx := connect(t, node, version, nil)
		templates, err := c.ListResourceTemplates(ctx, nil)
		if err != nil || len(templates.ResourceTemplates) != 2 || templates.ResourceTemplates[0].URITemplate != "locus://calls/{call_id}" {
			t.Fatalf("%s: %+v, %v", version, templates, err)
		}
	}
	c, ctx := connect(t, node, versions[0], nil)
	ended := make(chan error, 1)
	go func() {
		_, err := c.run(ctx, surfaces.ToolExecute, `{"code":"6*7","language":"python"}`, nil)
		ended <- err
	}()
	eventually(t, "the call runs", func() bool { return node.running() != nil })
	status := func() (r surfaces.Result) {
		t.Helper()
		read, err := c.ReadResource(ctx, &sdk.ReadResourceParams{URI: "locus://calls/c1"})
		if err != nil || len(read.Contents) != 1 || read.Contents[0].MIMEType != "application/json" {
			t.Fatalf("%+v, %v", read, err)
		}
		if err := json.Unmarshal([]byte(read.Contents[0].Text), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := status(); r.Status != surfaces.StatusRunning || r.CallID != "c1" {
		t.Errorf("while it runs: %+v", r)
	}
	close(goOn)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if r := status(); r.Status != surfaces.StatusDone || string(r.Result) != "42" {
		t.Errorf("after: %+v", r)
	}
	for uri, want := range map[string]sdk.ResourceContents{
		"locus://calls/c1/display/0": {MIMEType: "image/png", Blob: []byte("\x89PNG")},
		"locus://calls/c1/display/1": {MIMEType: "text/html", Text: "<b>"},
	} {
		read, err := c.ReadResource(ctx, &sdk.ReadResourceParams{URI: uri})
		if err != nil || len(read.Contents) != 1 {
			t.Fatalf("%s: %+v, %v", uri, read, err)
		}
		if got := read.Contents[0]; got.URI != uri || got.MIMEType != want.MIMEType || got.Text != want.Text || string(got.Blob) != string(want.Blob) {
			t.Errorf("%s: %+v", uri, got)
		}
	}
	for _, uri := range []string{"locus://calls/c2", "locus://calls/c1/display/3", "locus://calls/c1/display/-1", "locus://calls/c1/display/x", "locus://calls/%zz", "locus://calls/c1/x", "locus://other/c1"} {
		_, err := c.ReadResource(ctx, &sdk.ReadResourceParams{URI: uri})
		if code := codeOf(err); code != jsonrpc.CodeInvalidParams {
			t.Errorf("%s: %v, want code %v", uri, err, jsonrpc.CodeInvalidParams)
		}
	}
	for _, uri := range []string{"locus://calls/broken", "locus://calls/panics", "locus://calls/c1/display/2"} {
		_, err := c.ReadResource(ctx, &sdk.ReadResourceParams{URI: uri})
		if code := codeOf(err); code != jsonrpc.CodeInternalError || !strings.Contains(err.Error(), "id-7") || strings.Contains(err.Error(), "fire") {
			t.Errorf("%s: %v", uri, err)
		}
	}
}

func codeOf(err error) int64 {
	var told *jsonrpc.Error
	if !errors.As(err, &told) {
		return 0
	}
	return told.Code
}
