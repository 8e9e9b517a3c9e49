package gateway

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// send makes a request and reads the whole answer.
func send(t *testing.T, r *http.Request) (*http.Response, string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// object decodes the object of a call and insists on every field of it.
func decodeResult(t *testing.T, body string) surfaces.Result {
	t.Helper()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &fields); err != nil {
		t.Fatalf("not an object: %v\n%s", err, body)
	}
	for _, name := range []string{"call_id", "status", "stdout", "stderr", "truncated", "result", "result_type", "display", "error",
		"error_type", "code", "suggestion", "fix", "exception", "exit", "language", "state_mode", "session_id", "session_name", "venv_id",
		"surface", "machine", "node", "session_created", "duration_ms", "attempts", "state_lost", "state_diff", "usage"} {
		if _, ok := fields[name]; !ok {
			t.Errorf("field %s is missing in %s", name, body)
		}
	}
	var r surfaces.Result
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// event is one server-sent event as a client sees it.
type event struct{ id, name, data string }

// events reads a stream event by event.
type events struct {
	t    *testing.T
	resp *http.Response
	in   *bufio.Reader
	// comments counts heartbeats.
	comments int
}

func openEvents(t *testing.T, r *http.Request) *events {
	t.Helper()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || !strings.HasPrefix(kind, "text/event-stream") {
		body, err := io.ReadAll(resp.Body)
		t.Fatalf("no stream: %s %s %s %v", resp.Status, kind, body, err)
	}
	return &events{t: t, resp: resp, in: bufio.NewReader(resp.Body)}
}

// next gives the next event; ok is false at the stream's end.
func (s *events) next() (e event, ok bool) {
	s.t.Helper()
	for {
		line, err := s.in.ReadString('\n')
		if err == io.EOF && line == "" {
			return e, false
		}
		if err != nil {
			s.t.Fatalf("stream broke: %v", err)
		}
		line = strings.TrimSuffix(line, "\n")
		switch field, value, _ := strings.Cut(line, ": "); {
		case line == "" && e != event{}:
			return e, true
		case line == "":
		case field == "":
			s.comments++
		case field == "id":
			e.id = value
		case field == "event":
			e.name = value
		case field == "data" && e.data == "":
			e.data = value
		default:
			s.t.Fatalf("unexpected line %q", line)
		}
	}
}

// all reads to the end.
func (s *events) all() (list []event) {
	s.t.Helper()
	for {
		e, ok := s.next()
		if !ok {
			return list
		}
		list = append(list, e)
	}
}

// eventually waits for something that another goroutine does.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("did not happen: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
