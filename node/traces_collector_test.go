package node_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collected "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"

	"github.com/locusrun/locus/node"
)

// span is a span as it was exported.
type span struct {
	trace, id, parent string
	name              string
	node              string // that made it
	attributes        map[string]string
	failed            string
}

// collector receives the traces that nodes export.
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

// of returns the spans of a trace that were received so far.
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

// tree returns the names of a span and those below it, in alphabetical order.
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

// below waits until the spans below a call's span are the wanted tree.
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

// one returns the only span of a name in a trace.
func (c *collector) one(t testing.TB, trace, name string) span {
	t.Helper()
	all := c.of(trace)
	i := slices.IndexFunc(all, func(s span) bool { return s.name == name })
	if i < 0 {
		t.Fatalf("no span is called %s in %+v", name, all)
	}
	return all[i]
}

// logged records a node's log.
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

// A collector that is unreachable delays no call, is logged once, and does not delay the
// node's shutdown.
func TestAnUnreachableCollector(t *testing.T) {
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
			t.Errorf("%q is %d times in the log, want once", line, n)
		}
	}
}

// A collector that accepts requests and never answers does not delay the node's shutdown.
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
