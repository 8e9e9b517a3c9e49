package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// noon is the time of these tests.
var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// fakeNode answers like a node: with the bodies given by route, with or without its query, or
// with the streams of calls. It records the requests.
type fakeNode struct {
	answers map[string]answer
	// stream is the event stream of the next execute_code.
	stream string
	// hold, when set, keeps a stream open after its events until the call is
	// stopped, if there is an answer for that; then comes afterStop.
	hold      bool
	afterStop string

	mu      sync.Mutex
	sent    []string
	stopped chan struct{}
	halted  bool
	left    chan struct{}
}

type answer struct {
	status int
	body   string
}

func (n *fakeNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	route := r.Method + " " + r.URL.EscapedPath()
	n.mu.Lock()
	n.sent = append(n.sent, strings.TrimSpace(route+" "+string(body)))
	n.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer good" && r.URL.Path != "/healthz" {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"status":"refused","error":"The bearer token is not known.","error_type":"auth","code":"unauthenticated","suggestion":"Send a token.","state_lost":false}`)
		return
	}
	if _, obeys := n.answers[route]; obeys && strings.HasSuffix(route, "/stop") && n.hold {
		n.mu.Lock()
		if !n.halted {
			n.halted = true
			close(n.stopped)
		}
		n.mu.Unlock()
	}
	a, ok := n.answers[route+"?"+r.URL.RawQuery]
	if !ok {
		a, ok = n.answers[route]
	}
	if ok {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(a.status)
		fmt.Fprint(w, a.body)
		return
	}
	if n.stream == "" || r.Header.Get("Accept") != "text/event-stream" {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"status":"refused","error":"There is no such thing.","error_type":"validation","code":"invalid_argument","state_lost":false}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, n.stream)
	w.(http.Flusher).Flush()
	if !n.hold {
		return
	}
	select {
	case <-n.stopped:
		fmt.Fprint(w, n.afterStop)
	case <-r.Context().Done():
		close(n.left)
	}
}

// requests returns the requests, except for health checks.
func (n *fakeNode) requests() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.sent...)
}

// events returns a stream of events, given as pairs of name and data.
func events(pairs ...string) string {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&b, "id: %d\nevent: %s\ndata: %s\n\n", i+1, pairs[i], pairs[i+1])
	}
	return b.String()
}

// safeBuffer may be used by several goroutines.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// session is one run of the command in this process.
type session struct {
	a        *app
	out, err safeBuffer
	presses  chan os.Signal
	server   string
}

// command prepares a run of the command against a node, or without one.
func command(t *testing.T, n *fakeNode, stdin string) *session {
	t.Helper()
	var door http.Handler
	if n != nil {
		n.stopped, n.left = make(chan struct{}), make(chan struct{})
		door = n
	}
	s := commandOn(t, door)
	s.a.in = strings.NewReader(stdin)
	return s
}

// commandOn prepares a run of the command against an HTTP handler, or without one.
func commandOn(t *testing.T, door http.Handler) *session {
	t.Helper()
	s := &session{presses: make(chan os.Signal, 2)}
	env := map[string]string{"HOME": t.TempDir(), "PATH": os.Getenv("PATH"), "LOCUS_SERVER": "http://127.0.0.1:1", "LOCUS_TOKEN": "good"}
	if door != nil {
		server := httptest.NewServer(door)
		t.Cleanup(server.Close)
		env["LOCUS_SERVER"], s.server = server.URL, server.URL
	}
	s.a = &app{
		in: strings.NewReader(""), out: &s.out, err: &s.err,
		getenv:     func(k string) string { return env[k] },
		now:        func() time.Time { return noon },
		interrupts: func() (<-chan os.Signal, func()) { return s.presses, func() {} },
	}
	return s
}

// transcript writes what a run showed and how it ended.
func (s *session) transcript(args []string, status int) string {
	var b strings.Builder
	quoted, _ := json.Marshal(args)
	fmt.Fprintf(&b, "$ locus %s\n", strings.Trim(string(quoted), "[]"))
	writeLines(&b, "out", s.out.String())
	writeLines(&b, "err", s.err.String())
	fmt.Fprintf(&b, "status %d\n", status)
	if s.server == "" {
		return b.String()
	}
	return strings.ReplaceAll(b.String(), s.server, "SERVER")
}

func writeLines(b *strings.Builder, name, text string) {
	for _, line := range strings.SplitAfter(text, "\n") {
		if line != "" {
			fmt.Fprintf(b, "%s| %s\n", name, strings.TrimSuffix(line, "\n"))
		}
	}
}
