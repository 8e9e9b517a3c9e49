package node_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	collected "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"

	"github.com/locusrun/locus/node"
	"github.com/locusrun/locus/surfaces"
)

// span is one as a collector is sent it.
type span struct {
	trace, id, parent string
	name              string
	node              string // that made it
	attributes        map[string]string
	failed            string
}

// collector takes what nodes send of their traces.
type collector struct {
	*httptest.Server
	mu     sync.Mutex
	spans  []span
	bytes  []byte
	broken bool
	asked  int
}

func collect(t testing.TB) *collector {
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(c.take))
	t.Cleanup(c.Close)
	return c
}

// traced has a node send its traces to the collector.
func (c *collector) traced(cfg *node.Config) { cfg.TraceEndpoint = c.URL }

func (c *collector) take(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	body, err := io.ReadAll(r.Body)
	var sent collected.ExportTraceServiceRequest
	if c.broken || err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &sent) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.bytes = append(c.bytes, body...)
	for _, from := range sent.ResourceSpans {
		made := texts(from.Resource.Attributes)["service.instance.id"]
		for _, scope := range from.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans = append(c.spans, span{
					trace: hex.EncodeToString(s.TraceId), id: hex.EncodeToString(s.SpanId), parent: hex.EncodeToString(s.ParentSpanId),
					name: s.Name, node: made, attributes: texts(s.Attributes), failed: s.Status.GetMessage(),
				})
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func texts(list []*common.KeyValue) map[string]string {
	m := map[string]string{}
	for _, a := range list {
		switch v := a.Value.GetValue().(type) {
		case *common.AnyValue_StringValue:
			m[a.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			m[a.Key] = fmt.Sprint(v.IntValue)
		case *common.AnyValue_BoolValue:
			m[a.Key] = fmt.Sprint(v.BoolValue)
		}
	}
	return m
}

// of gives the spans of a trace that were sent so far.
func (c *collector) of(trace string) (list []span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.trace == trace {
			list = append(list, s)
		}
	}
	return list
}

// call gives the span of a call.
func (c *collector) call(t testing.TB, id string) (found span) {
	t.Helper()
	eventually(t, "the trace of "+id+" is sent", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		i := slices.IndexFunc(c.spans, func(s span) bool { return s.name == "execute_code" && s.attributes["locus.call_id"] == id })
		if i >= 0 {
			found = c.spans[i]
		}
		return i >= 0
	})
	return found
}

// tree draws what is below a span by names, in the order of the alphabet.
func tree(all []span, of span) string {
	var below []string
	for _, s := range all {
		if s.parent == of.id {
			below = append(below, tree(all, s))
		}
	}
	slices.Sort(below)
	if len(below) == 0 {
		return of.name
	}
	return of.name + "(" + strings.Join(below, " ") + ")"
}

// below waits for what is below the span of a call to be the tree that is wanted.
func (c *collector) below(t testing.TB, of span, want string) {
	t.Helper()
	got := ""
	defer func() {
		if got != want {
			t.Errorf("the trace is %s, not %s", got, want)
		}
	}()
	eventually(t, "the spans of "+want, func() bool { got = tree(c.of(of.trace), of); return got == want })
}

// one gives the only span of a name in a trace.
func (c *collector) one(t testing.TB, trace, name string) span {
	t.Helper()
	all := c.of(trace)
	i := slices.IndexFunc(all, func(s span) bool { return s.name == name })
	if i < 0 {
		t.Fatalf("no span is called %s in %+v", name, all)
	}
	return all[i]
}

const (
	anAgentsTrace = "0af7651916cd43dd8448eb211c80319c"
	anAgentsSpan  = "b7ad6b7169203331"
)

// traced calls execute_code as a part of an agent's own trace.
func (w *world) traced(trace, flags string, a args) (res surfaces.Result) {
	w.t.Helper()
	body, err := json.Marshal(args{"language": "python"}.with(a))
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", w.url+"/v1/tools/execute_code", bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.token)
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

// overMCP is one call by the Model Context Protocol, within the trace that its header, or
// the request itself, names.
func (w *world) overMCP(trace string, meta args) {
	w.t.Helper()
	body, err := json.Marshal(args{
		"jsonrpc": "2.0", "id": 1, "method": "tools/call",
		"params": args{"_meta": meta, "name": "execute_code", "arguments": args{"language": "python", "code": "1"}},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(w.t.Context(), "POST", w.url+"/mcp", bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header = http.Header{
		"Authorization": {"Bearer " + w.token}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Traceparent": {"00-" + trace + "-" + anAgentsSpan + "-01"},
	}
	resp, err := w.send(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	if said, err := io.ReadAll(resp.Body); err != nil || !bytes.Contains(said, []byte("call_id")) {
		w.t.Fatalf("got %s, %v", said, err)
	}
}

// What one node tells of calls, each with a trace of its own.
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
		t.Fatal(show(retried))
	}
	w.put(args{"source": "async def inner(x):\n    return x\n"})
	w.put(args{"source": "async def outer(x):\n    return await functions.inner(x)\n"})
	within := ok(t, w.once("await functions.outer('"+secret+"')"))
	unknown := ok(t, w.once("try:\n    await functions.nobody('"+secret+"')\nexcept Exception as e: pass"))
	long := ok(t, w.once("try:\n    await getattr(getattr(primitives, 'n' * 150), 'f' * 150)()\nexcept Exception: pass"))
	key := args{"code": "1", "idempotency_key": "k"}
	first, again := ok(t, w.exec(key)), ok(t, w.exec(key))
	if first.CallID != again.CallID {
		t.Fatal(show(again))
	}
	const ofHeader, ofMeta = "2af7651916cd43dd8448eb211c80319c", "3af7651916cd43dd8448eb211c80319c"
	w.overMCP(ofHeader, args{})
	w.overMCP(ofHeader, args{"traceparent": "00-" + ofMeta + "-" + anAgentsSpan + "-01"})
	w.stop() // which sends the rest

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
				t.Errorf("got %+v", top)
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
			t.Errorf("%q was sent %d times", hidden, n)
		}
	}
}

// A call is one trace over all nodes that have to do with it, and a part of its caller's.
func TestOneTraceThroughTwoNodes(t *testing.T) {
	t.Parallel()
	c := collect(t)
	all := mesh(t, 2, c.traced)
	own, others := owner(t, all, ok(t, all[0].keep("s", "x = 1")))
	away := others[0]
	own.put(args{"source": "async def twice(x):\n    return 2 * x\n"})

	res := ok(t, away.traced(anAgentsTrace, "01", args{"code": "await functions.twice(4)", "state_mode": "stateful", "session_name": "s"}))
	top := c.call(t, res.CallID)
	if top.trace != anAgentsTrace || top.parent != anAgentsSpan || top.node != away.id() {
		t.Fatalf("got %+v", top)
	}
	const inner = "primitive(execute_code(attempt(prepare queue run) place))"
	c.below(t, top, "execute_code(attempt(route(serve(prepare queue run))) place "+inner+" validate)")
	if s := c.one(t, top.trace, "serve"); s.node != own.id() {
		t.Errorf("what the owner does was told by %s", s.node)
	}

	// The caller says that this one is not to be recorded, and no node does.
	const silent = "1af7651916cd43dd8448eb211c80319c"
	ok(t, away.traced(silent, "00", args{"code": "x", "state_mode": "stateful", "session_name": "s"}))
	last := ok(t, away.keep("s", "x"))
	c.call(t, last.CallID)
	if spans := c.of(silent); len(spans) > 0 {
		t.Errorf("got %+v", spans)
	}
}

// A node without a collector leads a trace on, and begins none.
func TestATraceThroughANodeThatTellsNothing(t *testing.T) {
	t.Parallel()
	c := collect(t)
	telling := 0
	all := mesh(t, 2, func(cfg *node.Config) {
		if telling++; telling == 2 {
			c.traced(cfg)
		}
	})
	quiet, traced := all[0], all[1]
	ok(t, traced.keep("warm", "1"))
	name := ""
	eventually(t, "a session is on the other node", func() bool {
		name += "s"
		return ok(t, quiet.keep(name, "x = 1")).Node == traced.id()
	})
	ok(t, quiet.traced(anAgentsTrace, "01", args{"code": "x", "state_mode": "stateful", "session_name": name}))
	eventually(t, "the owner's part is sent", func() bool {
		spans := c.of(anAgentsTrace)
		i := slices.IndexFunc(spans, func(s span) bool { return s.parent == anAgentsSpan })
		return i >= 0 && tree(spans, spans[i]) == "serve(prepare queue run)"
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.name == "serve" && s.trace != anAgentsTrace {
			t.Errorf("an attempt of a call without a trace has one: %+v", s)
		}
	}
}

// logged is a node's log.
type logged struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.all.String(), text)
}

// A collector that is away costs no call anything, is told of once, and does not hold up
// the node's end.
func TestACollectorThatIsAway(t *testing.T) {
	t.Parallel()
	c := collect(t)
	c.broken = true
	var log logged
	w := start(t, t.TempDir(), c.traced, func(cfg *node.Config) { cfg.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	eventually(t, "the collector is asked twice", func() bool {
		ok(t, w.once("1"))
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.asked >= 2
	})
	c.mu.Lock()
	c.broken = false
	c.mu.Unlock()
	c.call(t, ok(t, w.once("1")).CallID)
	w.stop()
	for _, line := range []string{"traces cannot be sent", "traces are sent again"} {
		if n := log.count(line); n != 1 {
			t.Errorf("%q is %d times in the log", line, n)
		}
	}
}

// A collector that takes everything and answers nothing does not keep a node from ending.
func TestACollectorThatNeverAnswers(t *testing.T) {
	t.Parallel()
	held := make(chan struct{})
	dumb := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-held:
		case <-r.Context().Done():
		}
	}))
	defer dumb.Close()
	defer close(held)
	w := start(t, t.TempDir(), func(c *node.Config) { c.TraceEndpoint = dumb.URL })
	ok(t, w.once("1"))
	w.stop()
}
