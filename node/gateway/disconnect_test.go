package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// leaving makes a request that ends when leave is called.
func leaving(t *testing.T, r *http.Request) (req *http.Request, leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	t.Cleanup(cancel)
	return r.WithContext(ctx), cancel
}

// drop runs a request in the background until leave is called and it has ended.
func drop(t *testing.T, r *http.Request) (leave func()) {
	t.Helper()
	r, cancel := leaving(t, r)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		resp, err := http.DefaultClient.Do(r)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return func() { cancel(); <-ended }
}

func TestDisconnectOfAWaiterAbandonsAtOnce(t *testing.T) {
	f := newFake()
	started := scripted(f)
	_, srv := serve(t, f, nil)
	leave := drop(t, request(t, "POST", srv.URL+execute, program("1")))
	c := <-started
	if a := c.abandonments(); a != nil {
		t.Fatalf("abandoned %v while the client waits", a)
	}
	leave()
	eventually(t, "abandoned", func() bool { return slices.Equal(c.abandonments(), []time.Duration{0}) })
}

// A stream names its call before the call has said a word, so that it can be stopped, and
// found again, while its environment is built.
func TestAStreamNamesItsCallAtOnce(t *testing.T) {
	f := newFake()
	started := scripted(f)
	_, srv := serve(t, f, nil)
	s := openEvents(t, request(t, "POST", srv.URL+execute, program("1"), streaming))
	c := <-started
	if id := s.resp.Header.Get(CallHeader); id != c.id {
		t.Errorf("named %q, want %q", id, c.id)
	}
	c.finish()
	s.all()
}

func TestDisconnectOfAStreamLeavesAGrace(t *testing.T) {
	f := newFake()
	started := scripted(f)
	_, srv := serve(t, f, func(c *Config) { c.Grace = 7 * time.Second })
	leave := drop(t, request(t, "POST", srv.URL+execute, program("1"), streaming))
	c := <-started
	leave()
	eventually(t, "abandoned", func() bool { return slices.Equal(c.abandonments(), []time.Duration{7 * time.Second}) })

	// The caller comes back, leaves again, comes back and sees the end.
	at := srv.URL + "/v1/executions/" + c.id + "?from=8"
	leave = drop(t, request(t, "GET", at, ""))
	eventually(t, "followed", func() bool { return c.following() == 1 })
	leave()
	eventually(t, "abandoned again", func() bool { return len(c.abandonments()) == 2 })
	s := openEvents(t, request(t, "GET", at, ""))
	eventually(t, "followed", func() bool { return c.following() == 1 })
	c.finish()
	if list := s.all(); list[len(list)-1].name != "result" {
		t.Errorf("events %+v", list)
	}
	if n := len(c.abandonments()); n != 2 {
		t.Errorf("abandoned %d times", n)
	}
}

// Somebody who only looks on does not take the call away from its caller.
func TestDisconnectOfAFollowerDoesNotAbandon(t *testing.T) {
	f := newFake()
	started := scripted(f)
	g, srv := serve(t, f, nil)
	answered := make(chan string, 1)
	r := request(t, "POST", srv.URL+execute, program("1"))
	go func() {
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			answered <- err.Error()
			return
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			body = []byte(err.Error())
		}
		answered <- string(body)
	}()
	c := <-started
	leave := drop(t, request(t, "GET", srv.URL+"/v1/executions/"+c.id+"?from=0", ""))
	eventually(t, "followed", func() bool { return c.following() == 1 })
	leave()
	eventually(t, "not followed", func() bool { return c.following() == 0 })
	eventually(t, "the onlooker was counted out", func() bool {
		g.present.mu.Lock()
		defer g.present.mu.Unlock()
		return g.present.n[c.id] == 1
	})
	c.finish()
	if body := <-answered; decodeResult(t, body).CallID != c.id {
		t.Errorf("answer %s", body)
	}
	if a := c.abandonments(); a != nil {
		t.Errorf("abandoned %v", a)
	}
	eventually(t, "nobody is counted", func() bool {
		g.present.mu.Lock()
		defer g.present.mu.Unlock()
		return len(g.present.n) == 0
	})
}

// A reader that takes nothing is cut off after the deadline of one piece, and
// meanwhile everybody else is served.
func TestReaderThatStallsIsDisconnected(t *testing.T) {
	f := newFake()
	blob := `{"text":"` + strings.Repeat("x", 1<<20) + `"}`
	started := make(chan *fakeCall, 1)
	f.onStart = func(c *fakeCall) {
		for i := range int64(64) {
			c.say("stdout", blob, (i+1)<<20)
		}
		started <- c
	}
	_, srv := serve(t, f, func(c *Config) { c.WriteTimeout = 500 * time.Millisecond })
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := program("1")
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer alice\r\nAccept: text/event-stream\r\nContent-Length: %d\r\n\r\n%s",
		execute, len(body), body); err != nil {
		t.Fatal(err)
	}
	c := <-started
	eventually(t, "followed", func() bool { return c.following() == 1 })
	began := time.Now()
	if resp, _ := send(t, request(t, "GET", srv.URL+"/v1/status", "")); resp.StatusCode != 200 {
		t.Errorf("status %d, want 200", resp.StatusCode)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("another request waited %s", took)
	}
	eventually(t, "cut off", func() bool { return c.following() == 0 && len(c.abandonments()) == 1 })
	if a := c.abandonments(); a[0] != DefaultGrace {
		t.Errorf("abandoned with grace %v", a)
	}
}

// A body that trickles in is given up, and its bytes are given back. That also
// holds for one that nobody would read, because its sender is not known.
func TestBodyThatStallsIsRefused(t *testing.T) {
	g, srv := serve(t, newFake(), func(c *Config) { c.BodyTimeout = 300 * time.Millisecond })
	for token, status := range map[string]string{"alice": "408", "mallory": "401"} {
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: 1000\r\n\r\n{", execute, token); err != nil {
			t.Fatal(err)
		}
		if err := conn.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 "+status) {
			t.Errorf("%s: %v %q", token, err, answer)
		}
	}
	eventually(t, "bytes given back", func() bool { return g.bodies.used.Load() == 0 })
}

// A reader that is slow but goes on gets a long answer whole: the deadline is
// one of each piece, not of the answer.
func TestSlowButSteadyReaderIsServed(t *testing.T) {
	const size, timeout = 64 << 20, 3 * time.Second
	f := newFake()
	f.onStart = func(c *fakeCall) {
		r := c.Result()
		r.Status, r.Stdout = surfaces.StatusDone, strings.Repeat("x", size)
		c.end(r)
	}
	_, srv := serve(t, f, func(c *Config) { c.WriteTimeout = timeout })
	resp, err := http.DefaultClient.Do(request(t, "POST", srv.URL+execute, program("1")))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got int64
	began := time.Now()
	for {
		n, err := io.CopyN(io.Discard, resp.Body, 512<<10)
		got += n
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("after %d bytes and %s: %v", got, time.Since(began), err)
		}
		time.Sleep(40 * time.Millisecond) // the slowness under test
	}
	if got < size || time.Since(began) <= timeout {
		t.Errorf("%d bytes in %s", got, time.Since(began))
	}
}
