package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

// pythonClient finds a Python with the official client of the protocol.
func pythonClient(t *testing.T) string {
	t.Helper()
	python := os.Getenv("LOCUS_TEST_PYTHON")
	if python == "" {
		t.Skip("LOCUS_TEST_PYTHON names no Python; make race sets it")
	}
	if out, err := exec.CommandContext(t.Context(), python, "-c", "import mcp, httpx2").CombinedOutput(); err != nil {
		t.Skipf("%s has no package mcp, which needs Python 3.10: %s", python, out)
	}
	return python
}

func (n *realNode) token() string {
	n.t.Helper()
	token, err := os.ReadFile(filepath.Join(n.data, "default.token"))
	if err != nil {
		n.t.Fatal(err)
	}
	return strings.TrimSpace(string(token))
}

// The official Python client of MCP works over HTTP and over the command, with the handshake
// and without.
func TestTheOfficialPythonClient(t *testing.T) {
	t.Parallel()
	python := pythonClient(t)
	n := &realNode{t: t, path: binary(t), data: t.TempDir()}
	n.up()
	server, err := filepath.Abs(filepath.Join("..", "..", "node", "primitives", "mcpserver", "testdata", "server.py"))
	if err != nil {
		t.Fatal(err)
	}
	if _, said, status := n.locus("primitives", "add", "box", "--", python, server); status != 0 {
		t.Fatal(said)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, python, filepath.Join("testdata", "mcp", "client.py"), "http://"+n.http, n.token(), n.path).CombinedOutput()
	if err != nil || string(out) != "ok\n" {
		t.Fatalf("%v\n%s", err, out)
	}
}

// standIn lets the suite reach a node as an actor, and runs programs where it calls
// tools of its own. Everything else passes as it is, both ways.
func standIn(t *testing.T, n *realNode) *httptest.Server {
	t.Helper()
	to, err := url.Parse("http://" + n.http)
	if err != nil {
		t.Fatal(err)
	}
	token := n.token()
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host
		r.Out.Header.Set("Authorization", "Bearer "+token)
		body, err := io.ReadAll(r.In.Body)
		if err != nil {
			return // the request ends without its body
		}
		body = withProgram(body)
		r.Out.Body, r.Out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}}
	srv := httptest.NewServer(proxy)
	t.Cleanup(srv.Close)
	return srv
}

// withProgram makes a call of one of the suite's tools one of execute_code.
func withProgram(body []byte) []byte {
	var message map[string]any
	if json.Unmarshal(body, &message) != nil || message["method"] != "tools/call" {
		return body
	}
	params, _ := message["params"].(map[string]any)
	name, _ := params["name"].(string)
	code, ok := standIns[name]
	if !ok {
		return body
	}
	params["name"], params["arguments"] = surfaces.ToolExecute, map[string]any{"code": code, "language": "python"}
	changed, err := json.Marshal(message)
	if err != nil {
		return body
	}
	return changed
}

// The public conformance suite, in the version that this project has chosen, on a suitable
// Node.js.
func TestMCPConformance(t *testing.T) {
	t.Parallel()
	npx, err := exec.LookPath("npx")
	if err != nil {
		t.Skip("there is no npx to run the conformance suite with")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	suite := func(arguments string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, npx, "--yes", "-p", "node@22", "-p", "@modelcontextprotocol/conformance@0.1.16", "-c", "conformance "+arguments)
		cmd.Dir = t.TempDir()
		return cmd.CombinedOutput()
	}
	if out, err := suite("--version"); err != nil {
		t.Skipf("the conformance suite cannot be fetched: %v\n%s", err, out)
	}
	expected, err := filepath.Abs(filepath.Join("testdata", "mcp", "not-offered.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	n := &realNode{t: t, path: binary(t), data: t.TempDir()}
	n.up()
	out, err := suite("server --suite all --url " + standIn(t, n).URL + "/mcp --expected-failures '" + expected + "'")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !bytes.Contains(out, []byte("✓ tools-list")) {
		t.Fatalf("the suite has not run:\n%s", out)
	}
	t.Logf("%s", out[bytes.Index(out, []byte("=== SUMMARY")):])
}

// The suite's tools, by programs that do what they are to do.
var standIns = map[string]string{
	"test_simple_text":       `print('This is a simple text response for testing.')`,
	"test_image_content":     pixel + `Shown({'image/png': png})`,
	"test_audio_content":     pixel + `Shown({'audio/wav': b'RIFF'})`,
	"test_embedded_resource": pixel + `Shown({'text/html': '<p>embedded</p>'})`,
	"test_multiple_content_types": pixel + `print('Multiple content types test:')
Shown({'image/png': png, 'application/json': {'test': 'data', 'value': 123}})`,
	"test_error_handling": `raise RuntimeError('This tool intentionally returns an error for testing')`,
	"test_tool_with_progress": `import asyncio
for part in (0, 50, 100):
    await notify(f'{part} of 100')
    await asyncio.sleep(0.3)`,
	"test_elicitation": `import asyncio
try:
    await asyncio.wait_for(request_clarification('Please provide your information'), 2)
except TimeoutError:
    'the answer had another form'`,
}

const pixel = `import base64
png = base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==')
class Shown:
    def __init__(self, bundle): self.bundle = bundle
    def _repr_mimebundle_(self, include=None, exclude=None): return self.bundle
`
