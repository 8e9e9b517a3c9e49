package gateway

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// A node full of calls refuses more of them and can still be looked at and
// steered.
func TestCallsAreBounded(t *testing.T) {
	f := newFake()
	started := scripted(f)
	_, srv := serve(t, f, func(c *Config) { c.MaxCalls = 2 })
	drop(t, request(t, "POST", srv.URL+execute, program("1")))
	leave := drop(t, request(t, "POST", srv.URL+execute, program("1"), streaming))
	c := <-started
	<-started
	for _, r := range []*http.Request{
		request(t, "POST", srv.URL+execute, program("1")),
		request(t, "GET", srv.URL+"/v1/events", ""),
		request(t, "GET", srv.URL+"/v1/executions/"+c.id+"?from=0", ""),
	} {
		resp, body := send(t, r)
		if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || *decodeResult(t, body).Code != "no_capacity" {
			t.Errorf("%s: %d %s", r.URL, resp.StatusCode, body)
		}
	}
	for _, r := range []*http.Request{
		request(t, "POST", srv.URL+"/v1/executions/"+c.id+"/stop", ""),
		request(t, "GET", srv.URL+"/v1/executions/"+c.id, ""),
		request(t, "GET", srv.URL+"/v1/status", ""),
		request(t, "GET", srv.URL+"/healthz", ""),
	} {
		if resp, body := send(t, r); resp.StatusCode != 200 {
			t.Errorf("%s: %d %s", r.URL, resp.StatusCode, body)
		}
	}
	leave()
	f.onStart = nil
	eventually(t, "room again", func() bool {
		resp, _ := send(t, request(t, "POST", srv.URL+execute, program("1")))
		return resp.StatusCode == 200
	})
}

func TestBodiesAreBoundedTogether(t *testing.T) {
	g, srv := serve(t, newFake(), func(c *Config) { c.MaxBodies = 4096 })
	resp, body := send(t, request(t, "POST", srv.URL+execute, program(strings.Repeat("x", 5000))))
	if resp.StatusCode != 503 {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if resp, body = send(t, request(t, "POST", srv.URL+execute, program("1"))); resp.StatusCode != 200 {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if used := g.bodies.used.Load(); used != 0 {
		t.Errorf("%d bytes are still held", used)
	}
}

// Whatever arrives, in whatever pieces, with whatever length claimed: the holder
// gives exactly it, pays for what it holds, and gives all of it back.
func TestHolder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := bytes.Repeat([]byte("x"), rapid.IntRange(0, 300_000).Draw(t, "sent"))
		claimed := int64(len(sent))
		if rapid.Bool().Draw(t, "unknown") {
			claimed = -1
		}
		limit := rapid.Int64Range(0, 1<<20).Draw(t, "limit")
		b := budget{limit: limit}
		var from io.Reader = bytes.NewReader(sent)
		if rapid.Bool().Draw(t, "halves") {
			from = iotest.HalfReader(from)
		}
		h := holder{budget: &b, from: from}
		got, err := h.all(claimed)
		switch {
		case err == nil && !bytes.Equal(got, sent):
			t.Fatalf("%d bytes of %d", len(got), len(sent))
		case err == nil && int64(cap(got)) > b.used.Load():
			t.Fatalf("holds %d and pays for %d", cap(got), b.used.Load())
		case err != nil && limit > 3*int64(len(sent))+1024:
			t.Fatalf("refused %d bytes within %d: %v", len(sent), limit, err)
		}
		h.release()
		if b.used.Load() != 0 {
			t.Fatalf("%d bytes are still held", b.used.Load())
		}
	})
}

func TestControlsAreBounded(t *testing.T) {
	f := newFake()
	inside, leave := make(chan struct{}), make(chan struct{})
	var asked atomic.Int32
	f.status = func() StatusInfo {
		if asked.Add(1) == 1 {
			close(inside)
			<-leave
		}
		return StatusInfo{}
	}
	_, srv := serve(t, f, func(c *Config) { c.MaxControls = 1 })
	stop := drop(t, request(t, "GET", srv.URL+"/v1/status", ""))
	<-inside
	if resp, body := send(t, request(t, "GET", srv.URL+"/v1/nodes", "")); resp.StatusCode != 503 {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if resp, body := send(t, request(t, "POST", srv.URL+execute, program("1"))); resp.StatusCode != 200 {
		t.Errorf("a call was refused: %d %s", resp.StatusCode, body)
	}
	close(leave)
	stop()
}
