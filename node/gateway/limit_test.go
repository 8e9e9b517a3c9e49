package gateway

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
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
			t.Errorf("%s: %d %s, want status 200", r.URL, resp.StatusCode, body)
		}
	}
	leave()
	f.onStart = nil
	eventually(t, "room again", func() bool {
		resp, _ := send(t, request(t, "POST", srv.URL+execute, program("1")))
		return resp.StatusCode == 200
	})
}

// A client that sends everything before it reads anything has its answer, too.
func TestARefusedBodyIsReadToItsEnd(t *testing.T) {
	const size = 16 << 20 // more than the network holds by itself
	_, srv := serve(t, newFake(), func(c *Config) { c.MaxBody = size / 2 })
	chunk := []byte(fmt.Sprintf("%x\r\n%s\r\n", 64<<10, bytes.Repeat([]byte("x"), 64<<10)))
	for _, tt := range []struct {
		name, token, length string
		piece               []byte
		status              int
	}{
		{"long", "alice", fmt.Sprintf("Content-Length: %d", size), bytes.Repeat([]byte("x"), 64<<10), 413},
		{"long, in chunks", "alice", "Transfer-Encoding: chunked", chunk, 413},
		{"of nobody", "mallory", fmt.Sprintf("Content-Length: %d", size), bytes.Repeat([]byte("x"), 64<<10), 401},
	} {
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n%s\r\n\r\n", execute, srv.Listener.Addr(), tt.token, tt.length)
		for sent := 0; err == nil && sent < size; sent += 64 << 10 {
			_, err = conn.Write(tt.piece)
		}
		if err == nil && tt.piece[0] != 'x' {
			_, err = io.WriteString(conn, "0\r\n\r\n")
		}
		if err != nil {
			t.Fatalf("%s: it is cut off: %v", tt.name, err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || resp.StatusCode != tt.status {
			t.Errorf("%s: %v, %v", tt.name, resp, err)
		}
	}
}

func TestMemoryOfAllBodiesIsBounded(t *testing.T) {
	g, srv := serve(t, newFake(), func(c *Config) { c.MaxBodies = 4096 })
	resp, body := send(t, request(t, "POST", srv.URL+execute, program(strings.Repeat("x", 5000))))
	if resp.StatusCode != 503 {
		t.Errorf("%d %s, want status 503", resp.StatusCode, body)
	}
	if resp, body = send(t, request(t, "POST", srv.URL+execute, program("1"))); resp.StatusCode != 200 {
		t.Errorf("%d %s, want status 200", resp.StatusCode, body)
	}
	if used := g.bodies.used.Load(); used != 0 {
		t.Errorf("%d bytes are still held", used)
	}
}

// Whatever arrives, in whatever pieces, with whatever length claimed: the bodyReader
// gives exactly it, pays for what it holds, and gives all of it back.
func TestBodyReaderAccountsForItsBytes(t *testing.T) {
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
		h := bodyReader{budget: &b, from: from}
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
		t.Errorf("%d %s, want status 503", resp.StatusCode, body)
	}
	if resp, body := send(t, request(t, "POST", srv.URL+execute, program("1"))); resp.StatusCode != 200 {
		t.Errorf("a call was refused: %d %s", resp.StatusCode, body)
	}
	close(leave)
	stop()
}
