package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/locusrun/locus/node"
	"github.com/locusrun/locus/surfaces"
)

const (
	anAgentsTrace = "0af7651916cd43dd8448eb211c80319c"
	anAgentsSpan  = "b7ad6b7169203331"
)

// traced calls execute_code as a part of an agent's own trace.
func (w *world) traced(trace, flags string, a args) (res surfaces.Result) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req := w.newRequest(ctx, "POST", "/v1/tools/execute_code", args{"language": "python"}.with(a))
	req.Header.Set("Traceparent", "00-"+trace+"-"+anAgentsSpan+"-"+flags)
	resp, err := w.send(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&res); err != nil {
		w.t.Fatal(err)
	}
	return res
}

// overMCP makes a call by the Model Context Protocol, within the trace that its header, or the
// request itself, names.
func (w *world) overMCP(trace string, meta args) {
	w.t.Helper()
	req := w.newRequest(w.t.Context(), "POST", "/mcp", args{
		"jsonrpc": "2.0", "id": 1, "method": "tools/call",
		"params": args{"_meta": meta, "name": "execute_code", "arguments": args{"language": "python", "code": "1"}},
	})
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Traceparent", "00-"+trace+"-"+anAgentsSpan+"-01")
	resp, err := w.send(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	if said, err := io.ReadAll(resp.Body); err != nil || !bytes.Contains(said, []byte("call_id")) {
		w.t.Fatalf("got %s, %v, want a result with its call_id", said, err)
	}
}

// The spans that one node exports for calls, each with a trace of its own.
func TestTracesOfANode(t *testing.T) {
	t.Parallel()
	c := collect(t)
	w := start(t, t.TempDir(), c.traced)
	const secret = "s3cr3t-of-the-code"
	id := w.id()

	plain := ok(t, w.once("'"+secret+"'"))
	kept := ok(t, w.keep("sales", "x = '"+secret+"'"))
	read := ok(t, w.read("sales", "x"))
	raised := code(t, w.once("raise ValueError('"+secret+"')"), surfaces.CodeException)
	refused := w.exec(args{"code": "1", "session_name": "sales"})
	atomic := ok(t, w.exec(args{"code": "y = 1", "state_mode": "stateful", "session_name": "sales", "atomic": true}))
	retried := w.keep("sales", `
import os
if not os.path.exists("once"):
    open("once", "w").close()
    os.kill(os.getpid(), 9)`)
	if retried.Attempts != 2 {
		t.Fatalf("got %s, want 2 attempts", show(retried))
	}
	w.put(args{"source": "async def inner(x):\n    return x\n"})
	w.put(args{"source": "async def outer(x):\n    return await functions.inner(x)\n"})
	within := ok(t, w.once("await functions.outer('"+secret+"')"))
	unknown := ok(t, w.once("try:\n    await functions.nobody('"+secret+"')\nexcept Exception as e: pass"))
	long := ok(t, w.once("try:\n    await getattr(getattr(primitives, 'n' * 150), 'f' * 150)()\nexcept Exception: pass"))
	key := args{"code": "1", "idempotency_key": "k"}
	first, again := ok(t, w.exec(key)), ok(t, w.exec(key))
	if first.CallID != again.CallID {
		t.Fatalf("got %s, want the result of call %s", show(again), first.CallID)
	}
	const ofHeader, ofMeta = "2af7651916cd43dd8448eb211c80319c", "3af7651916cd43dd8448eb211c80319c"
	w.overMCP(ofHeader, args{})
	w.overMCP(ofHeader, args{"traceparent": "00-" + ofMeta + "-" + anAgentsSpan + "-01"})
	w.stop() // which exports the rest

	const attempt = "attempt(prepare queue run)"
	for name, x := range map[string]struct {
		call surfaces.Result
		want string
	}{
		"stateless": {plain, "execute_code(" + attempt + " place validate)"},
		"stateful":  {kept, "execute_code(" + attempt + " place validate)"},
		"read_only": {read, "execute_code(" + attempt + " place validate)"},
		"atomic":    {atomic, "execute_code(" + attempt + " place validate)"},
		"exception": {raised, "execute_code(" + attempt + " place validate)"},
		"refused":   {refused, "execute_code(validate)"},
		"retried":   {retried, "execute_code(" + attempt + " " + attempt + " place place validate)"},
		"functions": {within, "execute_code(" + attempt + " place primitive(execute_code(" + attempt + " place primitive(execute_code(" + attempt + " place)))) validate)"},
		"unknown":   {unknown, "execute_code(" + attempt + " place primitive validate)"},
	} {
		t.Run(name, func(t *testing.T) {
			top := c.call(t, x.call.CallID)
			if top.parent != "" || top.node != id {
				t.Errorf("got %+v, want a root span of node %s", top, id)
			}
			c.below(t, top, x.want)
		})
	}

	for _, trace := range []string{ofHeader, ofMeta} {
		if top := c.one(t, trace, "execute_code"); top.parent != anAgentsSpan || len(c.of(trace)) != len(c.of(c.call(t, plain.CallID).trace)) {
			t.Errorf("by the Model Context Protocol: %+v", c.of(trace))
		}
	}

	has := func(s span, want map[string]string) {
		t.Helper()
		for key, value := range want {
			if s.attributes[key] != value {
				t.Errorf("%s: %s is %q, not %q", s.name, key, s.attributes[key], value)
			}
		}
	}
	has(c.call(t, kept.CallID), map[string]string{
		"locus.actor": "default", "locus.language": "python", "locus.state_mode": "stateful", "locus.session": "sales", "locus.surface": "local",
		"locus.status": "done", "locus.node": id, "locus.attempts": "1", "locus.code": "",
	})
	failed := c.call(t, raised.CallID)
	has(failed, map[string]string{"locus.status": "failed", "locus.code": "exception"})
	if failed.failed != "exception" {
		t.Errorf("the status of a failed call's span says %q", failed.failed)
	}
	has(c.call(t, refused.CallID), map[string]string{"locus.status": "refused", "locus.code": "stateless_with_session"})
	has(c.one(t, c.call(t, within.CallID).trace, "primitive"), map[string]string{"locus.outcome": "ok"})
	has(c.one(t, c.call(t, unknown.CallID).trace, "primitive"), map[string]string{"locus.primitive": "functions.nobody", "locus.seq": "1", "locus.outcome": "unknown"})

	if name := c.one(t, c.call(t, long.CallID).trace, "primitive").attributes["locus.primitive"]; len(name) != 256 {
		t.Errorf("a name has %d characters", len(name))
	}

	attempts := map[string]span{}
	for _, s := range c.of(c.call(t, retried.CallID).trace) {
		if s.name == "attempt" {
			attempts[s.attributes["locus.attempt"]] = s
		}
	}
	has(attempts["1"], map[string]string{"locus.loss": "process_died", "locus.may_have_run": "true"})
	has(attempts["2"], map[string]string{"locus.loss": "", "locus.node": id})

	repeats := 0
	for _, s := range c.spans {
		if s.attributes["locus.call_id"] == first.CallID && s.attributes["locus.repeated"] == "true" {
			repeats++
		}
	}
	if repeats != 1 {
		t.Errorf("the repeated call has %d spans", repeats)
	}

	token, err := os.ReadFile(filepath.Join(w.dir, node.TokenFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, hidden := range []string{secret, strings.TrimSpace(string(token)), "os.kill", "functions.outer('"} {
		if n := bytes.Count(c.bytes, []byte(hidden)); n > 0 {
			t.Errorf("%q was sent %d times, want never", hidden, n)
		}
	}
}

// A question is a span of the call that it was put to, with the run of its program.
func TestAQuestionIsPartOfItsCallsTrace(t *testing.T) {
	t.Parallel()
	c := collect(t)
	w := start(t, t.TempDir(), c.traced)
	id := w.exec(args{"code": "print('here', flush=True)\nawait interjections.get()", "background": true}).CallID
	eventually(t, "the code runs", func() bool { return w.result(id).Stdout != "" })
	w.steer(t, id, "ask", args{"code": "6 * 7"})
	w.steer(t, id, "ask", nil) // only for the stack
	w.steer(t, id, "interject", args{"message": "go on"})
	eventually(t, "the call ends", func() bool { return w.result(id).Status == surfaces.StatusDone })
	w.stop() // which exports the rest

	top := c.call(t, id)
	c.below(t, top, "execute_code(attempt(ask ask(run) prepare queue run) place validate)")
	for _, s := range c.of(top.trace) {
		if s.name == "ask" && (s.attributes["locus.status"] != "done" || s.attributes["locus.call_id"] == id || s.attributes["locus.call_id"] == "") {
			t.Errorf("a question's span has %v", s.attributes)
		}
	}
}
