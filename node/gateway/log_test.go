package gateway

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

// logBook keeps what is logged.
type logBook struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBook) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logBook) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(l, nil)) }

func (l *logBook) lines(t *testing.T) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(l.text()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		all = append(all, m)
	}
	return all
}

func TestOneLinePerRequest(t *testing.T) {
	log := &logBook{}
	_, srv := serve(t, newFake(), func(c *Config) { c.Log = log.logger() })
	resp, body := send(t, request(t, "POST", srv.URL+execute, program("1")))
	eventually(t, "a line", func() bool { return strings.Count(log.text(), "\n") == 1 })
	line := log.lines(t)[0]
	want := map[string]any{"msg": "request", "method": "POST", "path": execute, "status": "200", "actor": "alice",
		"call_id": decodeResult(t, body).CallID, "request_id": resp.Header.Get("X-Request-Id")}
	for k, v := range want {
		if line[k] != v {
			t.Errorf("%s is %v, want %v", k, line[k], v)
		}
	}
	send(t, request(t, "GET", srv.URL+"/v1/a%0Ab", "", header("Authorization", "Bearer topsecret")))
	eventually(t, "a second line", func() bool { return strings.Count(log.text(), "\n") == 2 })
	if strings.Contains(log.text(), "topsecret") {
		t.Error("a token is in the log")
	}
}

// A request that names its trace has it in the log too.
func TestALineNamesTheTraceOfItsRequest(t *testing.T) {
	log := &logBook{}
	_, srv := serve(t, newFake(), func(c *Config) { c.Log = log.logger() })
	const trace = "0af7651916cd43dd8448eb211c80319c"
	send(t, request(t, "POST", srv.URL+execute, program("1"), header("Traceparent", "00-"+trace+"-b7ad6b7169203331-01")))
	eventually(t, "a line", func() bool { return strings.Count(log.text(), "\n") == 1 })
	send(t, request(t, "POST", srv.URL+execute, program("1")))
	eventually(t, "a second line", func() bool { return strings.Count(log.text(), "\n") == 2 })
	lines := log.lines(t)
	if lines[0]["trace_id"] != trace {
		t.Errorf("the trace of %v", lines[0])
	}
	if _, has := lines[1]["trace_id"]; has {
		t.Errorf("a trace where there is none: %v", lines[1])
	}
}

// The id that a caller gets for a fault of ours leads to its stack in the log.
func TestPanicIsLoggedWithItsID(t *testing.T) {
	log := &logBook{}
	_, srv := serve(t, newFake(), func(c *Config) { c.Log = log.logger() })
	_, body := send(t, request(t, "POST", srv.URL+execute, program("panic")))
	r := decodeResult(t, body)
	if strings.Contains(body, "told to") {
		t.Errorf("the panic is told to the caller: %s", body)
	}
	eventually(t, "a line", func() bool { return strings.Contains(log.text(), "\n") })
	line := log.lines(t)[0]
	id, _ := line["request_id"].(string)
	if id == "" || !strings.Contains(*r.Error, id) {
		t.Errorf("id %q is not in %q", id, *r.Error)
	}
	text, _ := line["error"].(string)
	if line["level"] != "ERROR" || !strings.Contains(text, "the fake was told to") || !strings.Contains(text, "fake_test.go") {
		t.Errorf("line %v", line)
	}
}
