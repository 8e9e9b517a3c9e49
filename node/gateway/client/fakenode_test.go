package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/locusrun/locus/node/gateway"
)

// scripted is a node that streams one call's events and cuts connections where
// it is told to.
type scripted struct {
	name   string // of the call, in the head of the stream; empty: not there
	events []scriptedEvent
	// cuts gives, per connection, after how many bytes of the body it breaks;
	// connections beyond the list are not cut.
	cuts []int
	// chunk splits resumed output into pieces of at most this many bytes; 0 does
	// not split.
	chunk int

	mu          sync.Mutex
	posts, gets int
	froms       []string
}

type scriptedEvent struct {
	name, data string
	offset     int64
	text       string // of output
}

func output(stream, text string, end int64) scriptedEvent {
	data, _ := json.Marshal(map[string]string{"text": text})
	return scriptedEvent{name: stream, data: string(data), offset: end, text: text}
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	connection := s.posts + s.gets
	if r.Method == http.MethodPost {
		s.posts++
	} else {
		s.gets++
		s.froms = append(s.froms, r.URL.Query().Get("from"))
	}
	cut := -1
	if connection < len(s.cuts) {
		cut = s.cuts[connection]
	}
	s.mu.Unlock()
	from, _ := strconv.ParseInt(r.URL.Query().Get("from"), 10, 64)
	body := s.render(from)
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	if s.name != "" {
		w.Header().Set(gateway.CallHeader, s.name)
	}
	if cut < 0 || cut >= len(body) {
		fmt.Fprint(w, body)
		return
	}
	fmt.Fprint(w, body[:cut])
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

// render gives the stream from an output byte on, as the node's contract says.
func (s *scripted) render(from int64) string {
	var b strings.Builder
	for _, ev := range s.events {
		if ev.text == "" {
			fmt.Fprintf(&b, "id: %d\nevent: %s\ndata: %s\n\n: beat\n\n", ev.offset, ev.name, ev.data)
			continue
		}
		start := ev.offset - int64(len(ev.text))
		if ev.offset <= from {
			continue
		}
		text := ev.text[max(0, from-start):]
		for text != "" {
			n := len(text)
			if s.chunk > 0 && from > 0 {
				n = min(n, s.chunk)
			}
			piece := output(ev.name, text[:n], 0)
			text = text[n:]
			fmt.Fprintf(&b, "id: %d\nevent: %s\ndata: %s\n\n", ev.offset-int64(len(text)), ev.name, piece.data)
		}
	}
	return b.String()
}

// serve starts a node with a handler and gives a client of it with short waits.
func serve(t testing.TB, h http.Handler, change ...func(*Config)) *Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	cfg := Config{Server: server.URL, Token: "tok", ReconnectFor: 20 * time.Second}
	for _, f := range change {
		f(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

const doneResult = `{"call_id":"c1","status":"done","stdout":"","stderr":"","result":2,"state_lost":false}`

func refusedResult(code, errorType string) string {
	return fmt.Sprintf(`{"call_id":"","status":"refused","error":"no: %s","error_type":%q,"code":%q,"suggestion":"do otherwise","state_lost":false}`, code, errorType, code)
}
