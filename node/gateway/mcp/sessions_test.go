package mcp

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// door mounts an HTTP for tests: the bearer token is the actor's name.
func door(t *testing.T, b Bounds) (*HTTP, string) {
	t.Helper()
	h := NewHTTP(Config{Version: "test", Outputs: outputs()}, b)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, max(r.ContentLength, 0))
		if _, err := r.Body.Read(body); err != nil && r.ContentLength > 0 && !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		clone := r.Clone(r.Context())
		clone.Body = http.NoBody
		if len(body) > 0 {
			clone.Body = readCloser{strings.NewReader(string(body))}
		}
		actor := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		err := h.Serve(w, clone, Request{Actor: actor, Node: &fakeNode{}, Body: body})
		var refusal *surfaces.Refusal
		if errors.As(err, &refusal) {
			w.WriteHeader(surfaces.HTTPStatus(refusal.Result(surfaces.Partial{})))
		}
	}))
	t.Cleanup(func() { h.Close(); srv.Close() })
	return h, srv.URL
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// post sends a message and gives the status and the session's id in the answer.
func post(t *testing.T, url, actor, session, body string) (status int, id string) {
	t.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodDelete
	}
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+actor)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		r.Header.Set(headerSession, session)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode, resp.Header.Get(headerSession)
}

const ping = `{"jsonrpc":"2.0","id":2,"method":"ping"}`

func TestASessionBelongsToItsActor(t *testing.T) {
	_, url := door(t, Bounds{})
	status, id := post(t, url, "alice", "", initialize)
	if status != 200 || id == "" {
		t.Fatalf("status %d, want 200, session %q", status, id)
	}
	for _, tt := range []struct {
		actor, session string
		status         int
	}{{"alice", id, 200}, {"bob", id, 404}, {"alice", "made up", 404}} {
		if status, _ := post(t, url, tt.actor, tt.session, ping); status != tt.status {
			t.Errorf("%s in %q: %d", tt.actor, tt.session, status)
		}
	}
	if status, _ := post(t, url, "bob", id, ""); status != 404 {
		t.Errorf("bob ends it: %d", status)
	}
	if status, _ := post(t, url, "alice", id, ""); status != 204 {
		t.Errorf("alice ends it: %d", status)
	}
	if status, _ := post(t, url, "alice", id, ping); status != 404 {
		t.Errorf("after its end: %d", status)
	}
}

func TestSessionsAreBounded(t *testing.T) {
	h, url := door(t, Bounds{Sessions: 4, PerActor: 3})
	var ids []string
	begin := func(actor string) (int, string) {
		status, id := post(t, url, actor, "", initialize)
		return status, id
	}
	for range 3 {
		_, id := begin("alice")
		ids = append(ids, id)
	}
	// The first was used last, so the second makes room for the fourth.
	post(t, url, "alice", ids[0], ping)
	if status, _ := begin("alice"); status != 200 {
		t.Errorf("the fourth: %d", status)
	}
	for i, want := range []int{200, 404, 200} {
		if status, _ := post(t, url, "alice", ids[i], ping); status != want {
			t.Errorf("session %d: %d", i, status)
		}
	}
	if status, _ := begin("bob"); status != 200 {
		t.Errorf("bob's first: %d", status)
	}
	if status, _ := begin("carol"); status != 503 {
		t.Errorf("one more than there is room for: %d", status)
	}
	eventually(t, "the library has forgotten the ended ones", func() bool {
		n := 0
		for s := range h.sessions.server.Sessions() {
			if s.ID() != "" {
				n++
			}
		}
		return n == 4
	})
	h.sessions.mu.Lock()
	defer h.sessions.mu.Unlock()
	if n := len(h.sessions.pending); n != 0 {
		t.Errorf("%d places are held by nobody", n)
	}
}

func TestIdleMCPSessionEnds(t *testing.T) {
	h, url := door(t, Bounds{Idle: 10 * time.Millisecond})
	_, id := post(t, url, "alice", "", initialize)
	eventually(t, "it ends", func() bool {
		h.sessions.mu.Lock()
		defer h.sessions.mu.Unlock()
		return len(h.sessions.byID) == 0 && h.sessions.find(id) == nil
	})
	if status, _ := post(t, url, "alice", id, ping); status != 404 {
		t.Errorf("after its end: %d", status)
	}
}

func TestNoMCPSessionStartsAfterClose(t *testing.T) {
	h, url := door(t, Bounds{})
	h.Close()
	if status, _ := post(t, url, "alice", "", initialize); status != 503 {
		t.Errorf("status %d, want 503", status)
	}
}

func TestFailedInitializeLeavesNoSession(t *testing.T) {
	h, url := door(t, Bounds{PerActor: 1})
	for i, body := range []string{`{"jsonrpc":"2.0","method":"initialize"}`, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":7}`, `{"id":1,"method":"initialize"}`} {
		post(t, url, "alice", "", body)
		eventually(t, fmt.Sprintf("nothing is kept of %d", i), func() bool {
			h.sessions.mu.Lock()
			defer h.sessions.mu.Unlock()
			return len(h.sessions.byID)+len(h.sessions.pending) == 0
		})
	}
	if status, id := post(t, url, "alice", "", initialize); status != 200 || id == "" {
		t.Error(fmt.Sprint(status, id))
	}
}
