package node_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

// event is one server-sent event.
type event struct {
	id, name string
	data     map[string]any
}

// stream calls execute_code and returns its events as they come. The channel is closed at the
// end of the stream.
func (w *world) stream(ctx context.Context, a args) <-chan event {
	w.t.Helper()
	req := w.newRequest(ctx, "POST", "/v1/tools/execute_code", args{"language": "python"}.with(a))
	req.Header.Set("Accept", "text/event-stream")
	return w.events(req)
}

// events returns the events of a stream until it ends, or breaks, which some tests cause.
func (w *world) events(req *http.Request) <-chan event {
	w.t.Helper()
	resp, err := w.send(req)
	if err != nil {
		w.t.Fatal(err)
	}
	out := make(chan event, 10000)
	go func() {
		defer close(out)
		defer resp.Body.Close()
		sc := bufio.NewScanner(resp.Body)
		sc.Buffer(nil, 64<<20)
		var e event
		for sc.Scan() {
			switch line := sc.Text(); {
			case strings.HasPrefix(line, "id: "):
				e.id = line[len("id: "):]
			case strings.HasPrefix(line, "event: "):
				e.name = line[len("event: "):]
			case strings.HasPrefix(line, "data: "):
				e.data = map[string]any{}
				if err := json.Unmarshal([]byte(line[len("data: "):]), &e.data); err != nil {
					w.t.Errorf("the data of an event: %v: %.300s", err, line)
				}
			case line == "" && e.name != "":
				out <- e
				e = event{}
			}
		}
	}()
	return out
}

// await returns the next event of a name.
func await(t testing.TB, events <-chan event, name string) event {
	t.Helper()
	for {
		if e := awaitAny(t, events); e.name == name {
			return e
		}
	}
}

// awaitAny returns the next event.
func awaitAny(t testing.TB, events <-chan event) event {
	t.Helper()
	select {
	case e, open := <-events:
		if open {
			return e
		}
		t.Fatal("the stream ended")
	case <-time.After(patience):
		t.Fatal("no event in time")
	}
	return event{}
}
