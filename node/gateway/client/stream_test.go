package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// heard collects what a stream told.
type heard struct {
	output map[string]string
	others []string
	order  []string
}

func (h *heard) emit(ev gateway.StreamEvent) error {
	if h.output == nil {
		h.output = map[string]string{}
	}
	if ev.Name == EventStdout || ev.Name == EventStderr {
		h.output[ev.Name] += Text(ev)
		for _, r := range Text(ev) {
			h.order = append(h.order, ev.Name+" "+string(r))
		}
		return nil
	}
	h.others = append(h.others, fmt.Sprintf("%s@%d %s", ev.Name, ev.Offset, ev.Data))
	h.order = append(h.order, ev.Name)
	return nil
}

func TestStreamYieldsEventsInOrderAndTheResult(t *testing.T) {
	node := &scripted{events: []scriptedEvent{
		{name: EventStarted, data: `{"call_id":"c1","node":"n1"}`},
		output(EventStdout, "hello ", 6),
		{name: EventNotify, data: `{"text":"half way"}`, offset: 6},
		output(EventStderr, "oops", 10),
		{name: EventResult, data: doneResult, offset: 10},
	}}
	var got heard
	result, err := serve(t, node).Stream(t.Context(), Arguments{Code: "1+1"}, got.emit)
	if err != nil {
		t.Fatal(err)
	}
	if result.Status != surfaces.StatusDone || string(result.Result) != "2" {
		t.Errorf("result %+v", result)
	}
	if got.output[EventStdout] != "hello " || got.output[EventStderr] != "oops" {
		t.Errorf("output %q", got.output)
	}
	want := []string{`started@0 {"call_id":"c1","node":"n1"}`, `notify@6 {"text":"half way"}`}
	if !slices.Equal(got.others, want) {
		t.Errorf("events %q, want %q", got.others, want)
	}
}

// A stream that breaks before the code has a place to run, as while its environment is
// built, is found again by the name in its head; the call is not sent twice.
func TestStreamReconnectsToACallThatHasNotStarted(t *testing.T) {
	node := &scripted{name: "c1", events: []scriptedEvent{
		{name: EventNotice, data: `{"kind":"environment","text":"building"}`},
		{name: EventStarted, data: `{"call_id":"c1","node":"n1"}`},
		{name: EventResult, data: doneResult},
	}}
	whole := node.render(0)
	node.cuts = []int{strings.Index(whole, "event: started")}
	var got heard
	result, err := serve(t, node).Stream(t.Context(), Arguments{Code: "1+1"}, got.emit)
	if err != nil || result.Status != surfaces.StatusDone {
		t.Fatalf("%+v, %v", result, err)
	}
	if node.posts != 1 || node.gets != 1 {
		t.Errorf("sent %d times, followed %d times", node.posts, node.gets)
	}
	want := []string{`notice@0 {"kind":"environment","text":"building"}`, `started@0 {"call_id":"c1","node":"n1"}`}
	if !slices.Equal(got.others, want) {
		t.Errorf("events %q, want %q", got.others, want)
	}
}

// Whatever the events are and wherever the connection breaks, a stream that
// breaks tells what a stream that does not break tells.
func TestStreamReconnectsWithoutLossOrRepetition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := []scriptedEvent{{name: EventStarted, data: `{"call_id":"c1","node":"n1"}`}}
		offset := int64(0)
		for i, n := 0, rapid.IntRange(0, 12).Draw(t, "n"); i < n; i++ {
			switch name := rapid.SampledFrom([]string{EventStdout, EventStderr, EventNotify, EventNotice, EventDisplay, EventPrimitive}).Draw(t, "name"); name {
			case EventStdout, EventStderr:
				text := rapid.StringMatching(`[a-z\n]{1,9}`).Draw(t, "text")
				offset += int64(len(text))
				events = append(events, output(name, text, offset))
			default:
				// Few different texts, so that equal events come in a row too.
				data := fmt.Sprintf(`{"text":%q}`, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "data"))
				events = append(events, scriptedEvent{name: name, data: data, offset: offset})
			}
		}
		events = append(events, scriptedEvent{name: EventResult, data: doneResult, offset: offset})
		whole := (&scripted{events: events}).render(0)
		// The first connection must live to the first event, or the call has no name.
		first := strings.Index(whole, "\n\n") + 2
		cuts := append([]int{rapid.IntRange(first, len(whole)-1).Draw(t, "cut")},
			rapid.SliceOfN(rapid.IntRange(0, len(whole)), 0, 4).Draw(t, "cuts")...)

		var want, got heard
		server := httptest.NewServer(&scripted{events: events})
		defer server.Close()
		broken := httptest.NewServer(&scripted{events: events, cuts: cuts, chunk: rapid.IntRange(0, 3).Draw(t, "chunk")})
		defer broken.Close()
		for _, try := range []struct {
			url  string
			told *heard
		}{{server.URL, &want}, {broken.URL, &got}} {
			c, err := New(Config{Server: try.url, ReconnectFor: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			c.pause = time.Millisecond
			result, err := c.Stream(context.Background(), Arguments{Code: "x"}, try.told.emit)
			c.Close()
			if err != nil || result.Status != surfaces.StatusDone {
				t.Fatalf("%v %+v", err, result)
			}
		}
		if !slices.Equal(got.order, want.order) || !slices.Equal(got.others, want.others) {
			t.Fatalf("told %q\nwant %q", got.order, want.order)
		}
	})
}

func TestStreamReconnectsFromTheLastByteSeen(t *testing.T) {
	events := []scriptedEvent{
		{name: EventStarted, data: `{"call_id":"c1","node":"n1"}`},
		output(EventStdout, "0123456789", 10),
		output(EventStdout, "abcdef", 16),
		{name: EventResult, data: doneResult, offset: 16},
	}
	node := &scripted{events: events}
	whole := node.render(0)
	node.cuts = []int{strings.Index(whole, "abcdef") + 3}
	var told []string
	c := serve(t, node, func(cfg *Config) {
		cfg.OnReconnect = func(id string, offset int64, cause error) {
			told = append(told, fmt.Sprint(id, " ", offset, " ", cause != nil))
		}
	})
	var got heard
	if _, err := c.Stream(t.Context(), Arguments{Code: "x"}, got.emit); err != nil {
		t.Fatal(err)
	}
	if got.output[EventStdout] != "0123456789abcdef" {
		t.Errorf("output %q", got.output[EventStdout])
	}
	if node.posts != 1 || !slices.Equal(node.froms, []string{"10"}) {
		t.Errorf("posts %d, from %q; want one post and one return from byte 10", node.posts, node.froms)
	}
	if !slices.Equal(told, []string{"c1 10 true"}) {
		t.Errorf("Reconnecting told %q", told)
	}
}

func TestStreamKeepsEventsAtTheSameOffset(t *testing.T) {
	node := &scripted{events: []scriptedEvent{
		{name: EventStarted, data: `{"call_id":"c1","node":"n1"}`},
		{name: EventStdout, data: `{"text":"ab"}`, offset: 3}, {name: EventStdout, data: `{"text":"\ufffd"}`, offset: 3}, {name: EventStderr, data: `{"text":"\ufffd"}`, offset: 3},
		{name: EventResult, data: doneResult, offset: 3},
	}}
	var got heard
	if _, err := serve(t, node).Stream(t.Context(), Arguments{Code: "x"}, got.emit); err != nil {
		t.Fatal(err)
	}
	if got.output[EventStdout] != "ab\ufffd" || got.output[EventStderr] != "\ufffd" {
		t.Errorf("output %q", got.output)
	}
}

func TestStreamBrokenBeforeTheCallIDFails(t *testing.T) {
	cut := func(key *string) (*scripted, error) {
		node := &scripted{cuts: []int{5}, events: []scriptedEvent{
			{name: EventStarted, data: `{"call_id":"c1","node":"n1"}`}, {name: EventResult, data: doneResult},
		}}
		_, err := serve(t, node).Stream(t.Context(), Arguments{Code: "x", IdempotencyKey: key}, (&heard{}).emit)
		return node, err
	}
	node, err := cut(nil)
	var broken *ConnectionLostError
	if !errors.As(err, &broken) || broken.CallID != "" || node.posts != 1 {
		t.Errorf("without a key: %v after %d posts; want Broken after one", err, node.posts)
	}
	key := "k"
	if node, err = cut(&key); err != nil || node.posts != 2 {
		t.Errorf("with a key: %v after %d posts; want none after two", err, node.posts)
	}
}

// vanishing streams the start of a call, breaks, and answers every return alike.
func vanishing(status int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "event: started\ndata: {\"call_id\":\"c9\"}\n\nid: 3\nevent: stdout\ndata: {\"text\":\"abc\"}\n\n")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})
}

func TestStreamThatCannotReconnectFails(t *testing.T) {
	for _, row := range []struct {
		name   string
		status int
		body   string
		quick  bool
	}{
		{"the node forgot the call", 404, refusedResult("invalid_argument", "validation"), true},
		{"the token was revoked", 401, refusedResult("unauthenticated", "auth"), true},
		{"the node stays busy", 503, refusedResult("no_capacity", "unavailable"), false},
		{"a proxy stands in the way", 502, "<html>bad gateway</html>", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := serve(t, vanishing(row.status, row.body), func(cfg *Config) {
				if !row.quick {
					cfg.ReconnectFor = 300 * time.Millisecond
				}
			})
			begin := time.Now()
			_, err := c.Stream(t.Context(), Arguments{Code: "x"}, (&heard{}).emit)
			var broken *ConnectionLostError
			var refused *RefusedError
			if !errors.As(err, &broken) || broken.CallID != "c9" || broken.Offset != 3 || !errors.As(err, &refused) {
				t.Fatalf("%v; want Broken c9 at 3 with the refusal in it", err)
			}
			if row.quick && time.Since(begin) > 10*time.Second {
				t.Errorf("took %v; a verdict needs no patience", time.Since(begin))
			}
		})
	}
}

func TestStreamRetriesABusyNode(t *testing.T) {
	var gets atomic.Int32
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && gets.Add(1) == 3 {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "event: result\ndata: %s\n\n", doneResult)
			return
		}
		vanishing(503, refusedResult("no_capacity", "unavailable")).ServeHTTP(w, r)
	}))
	result, err := c.Stream(t.Context(), Arguments{Code: "x"}, (&heard{}).emit)
	if err != nil || result.Status != surfaces.StatusDone || gets.Load() != 3 {
		t.Errorf("%v %v after %d returns; want the result at the third", result.Status, err, gets.Load())
	}
}

func TestSilentStreamIsReconnected(t *testing.T) {
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if r.Method == http.MethodGet {
			fmt.Fprintf(w, "event: result\ndata: %s\n\n", doneResult)
			return
		}
		fmt.Fprint(w, "event: started\ndata: {\"call_id\":\"c9\"}\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}), func(cfg *Config) { cfg.StreamTimeout = 200 * time.Millisecond })
	if _, err := c.Stream(t.Context(), Arguments{Code: "x"}, (&heard{}).emit); err != nil {
		t.Error(err)
	}
}

func TestSlowReaderIsNotTakenForSilence(t *testing.T) {
	t.Parallel()
	node := &scripted{events: []scriptedEvent{
		{name: EventStarted, data: `{"call_id":"c1"}`}, output(EventStdout, "a", 1), {name: EventResult, data: doneResult, offset: 1},
	}}
	c := serve(t, node, func(cfg *Config) { cfg.StreamTimeout = 2 * time.Second })
	block := time.After(3 * time.Second)
	_, err := c.Stream(t.Context(), Arguments{Code: "x"}, func(ev gateway.StreamEvent) error {
		if ev.Name == EventStarted {
			<-block
		}
		return nil
	})
	if err != nil || node.gets != 0 {
		t.Errorf("%v after %d returns; want none", err, node.gets)
	}
}

func TestStreamEndsWithItsContextAndItsReader(t *testing.T) {
	gone := make(chan struct{})
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: started\ndata: {\"call_id\":\"c9\"}\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		gone <- struct{}{}
	}))
	cause := errors.New("the person left")
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err := c.Stream(ctx, Arguments{Code: "x"}, func(gateway.StreamEvent) error { cancel(cause); return nil })
	if !errors.Is(err, cause) {
		t.Errorf("%v; want the context's cause", err)
	}
	<-gone
	full := errors.New("disk full")
	_, err = c.Stream(t.Context(), Arguments{Code: "x"}, func(gateway.StreamEvent) error { return full })
	if !errors.Is(err, full) {
		t.Errorf("%v; want what emit returned", err)
	}
	<-gone
}

func TestRefusedStreamYieldsAResult(t *testing.T) {
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, refusedResult("stateless_with_session", "validation"))
	}))
	result, err := c.Stream(t.Context(), Arguments{Code: "x"}, (&heard{}).emit)
	if err != nil || result.Code == nil || *result.Code != surfaces.CodeStatelessWithSession {
		t.Errorf("%+v %v", result, err)
	}
}

func TestFollow(t *testing.T) {
	node := &scripted{events: []scriptedEvent{
		{name: EventStarted, data: `{"call_id":"c1"}`}, output(EventStdout, "0123456789", 10), {name: EventResult, data: doneResult, offset: 10},
	}}
	var got heard
	if _, err := serve(t, node).Follow(t.Context(), "c1", 7, got.emit); err != nil {
		t.Fatal(err)
	}
	if got.output[EventStdout] != "789" {
		t.Errorf("from byte 7: %q", got.output[EventStdout])
	}
	_, err := serve(t, vanishing(404, refusedResult("invalid_argument", "validation"))).Follow(t.Context(), "c9", 0, got.emit)
	var refused *RefusedError
	var broken *ConnectionLostError
	if !errors.As(err, &refused) || errors.As(err, &broken) || refused.HTTPStatus != 404 {
		t.Errorf("an unknown call: %v; want Refused", err)
	}
}

func TestStreamOfAnotherContentTypeFails(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"a page": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>hello</html>") },
		"a stream of other events": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "event: stdout\ndata: not json\n\n")
		},
		"a start without a name": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "event: started\ndata: {}\n\n")
		},
	} {
		_, err := serve(t, h).Stream(t.Context(), Arguments{Code: "x"}, (&heard{}).emit)
		var misanswered *ProtocolError
		if !errors.As(err, &misanswered) {
			t.Errorf("%s: %v; want a ProtocolError", name, err)
		}
	}
}
