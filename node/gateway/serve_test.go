package gateway

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// listening runs Serve; stop ends its context, and ended gives what it returned.
func listening(t *testing.T, f *fake, adjust func(*Config)) (url string, stop func(), ended <-chan error) {
	t.Helper()
	cfg := Config{Service: f}
	if adjust != nil {
		adjust(&cfg)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	over := make(chan struct{})
	go func() {
		defer close(over)
		result <- New(cfg).Serve(ctx, ln)
	}()
	t.Cleanup(func() {
		cancel()
		f.mu.Lock()
		for _, c := range f.calls {
			c.finish()
		}
		f.mu.Unlock()
		<-over
		http.DefaultClient.CloseIdleConnections()
	})
	return "http://" + ln.Addr().String(), cancel, result
}

func waitFor(t *testing.T, ended <-chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(60 * time.Second):
		t.Fatal("Serve does not end")
		return nil
	}
}

// A shutdown lets calls end and tells their callers, and ends the streams that
// have no end.
func TestGracefulShutdown(t *testing.T) {
	f := newFake()
	started := scripted(f)
	url, stop, ended := listening(t, f, func(c *Config) { c.DrainTimeout = 60 * time.Second })
	follow := openEvents(t, request(t, "GET", url+"/v1/events", ""))
	call := openEvents(t, request(t, "POST", url+execute, program("1"), streaming))
	c := <-started
	stop()
	if rest := follow.all(); len(rest) != 0 {
		t.Errorf("events %+v", rest)
	}
	select {
	case err := <-ended:
		t.Fatalf("Serve ended with %v while a call ran", err)
	case <-time.After(100 * time.Millisecond):
	}
	c.finish()
	if list := call.all(); list[len(list)-1].name != "result" {
		t.Errorf("events %+v", list)
	}
	if err := waitFor(t, ended); err != nil {
		t.Error(err)
	}
	if _, err := http.DefaultClient.Do(request(t, "GET", url+"/healthz", "")); err == nil {
		t.Error("it still answers")
	}
}

// What has not ended at the end of the drain is cut off, and its call abandoned.
func TestShutdownIsBounded(t *testing.T) {
	f := newFake()
	started := scripted(f)
	url, stop, ended := listening(t, f, func(c *Config) { c.DrainTimeout = 50 * time.Millisecond })
	drop(t, request(t, "POST", url+execute, program("1")))
	c := <-started
	stop()
	if err := waitFor(t, ended); err != nil {
		t.Error(err)
	}
	eventually(t, "abandoned", func() bool { return slices.Equal(c.abandonments(), []time.Duration{0}) })
}

func TestServeReturnsTheErrorOfItsListener(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	if err := New(Config{Service: newFake()}).Serve(context.Background(), ln); err == nil {
		t.Error("no error")
	}
}

// HTTP/2 without TLS: many calls on one connection, and a cancelled stream
// reaches its call while the connection lives on.
func TestHTTP2(t *testing.T) {
	f := newFake()
	started := scripted(f)
	url, _, _ := listening(t, f, nil)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	r, leave := leaving(t, request(t, "POST", url+execute, program("1"), streaming))
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if resp.ProtoMajor != 2 {
		t.Errorf("protocol %s", resp.Proto)
	}
	c := <-started
	leave()
	resp.Body.Close()
	eventually(t, "abandoned", func() bool { return slices.Equal(c.abandonments(), []time.Duration{DefaultGrace}) })
	if resp, err = client.Do(request(t, "GET", url+"/v1/status", "")); err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
		t.Errorf("%d %v", resp.StatusCode, err)
	}
}

// Requests that no honest client sends.
func TestHostileRequests(t *testing.T) {
	f := newFake()
	url, _, _ := listening(t, f, func(c *Config) { c.MaxHeader = 8 << 10; c.HeaderTimeout = 500 * time.Millisecond })
	addr := strings.TrimPrefix(url, "http://")
	const auth = "Host: localhost\r\nAuthorization: Bearer alice\r\n"
	for _, tt := range []struct {
		name, send string
		status     []string
	}{
		{"huge header", "GET /v1/status HTTP/1.1\r\n" + auth + "X: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", []string{"431"}},
		{"many headers", "GET /v1/status HTTP/1.1\r\n" + auth + strings.Repeat("X: y\r\n", 10_000) + "\r\n", []string{"431"}},
		{"two lengths", "POST " + execute + " HTTP/1.1\r\n" + auth + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", []string{"400"}},
		{"length and chunks", "POST " + execute + " HTTP/1.1\r\n" + auth + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", []string{"422", "400"}},
		{"odd encoding", "POST " + execute + " HTTP/1.1\r\n" + auth + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", []string{"501", "400"}},
		{"broken chunk", "POST " + execute + " HTTP/1.1\r\n" + auth + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", []string{"400"}},
		{"negative length", "POST " + execute + " HTTP/1.1\r\n" + auth + "Content-Length: -1\r\n\r\n", []string{"400"}},
		{"two hosts", "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", []string{"400"}},
		{"no host", "GET / HTTP/1.1\r\n\r\n", []string{"400"}},
		{"two tokens", "GET /v1/status HTTP/1.1\r\n" + auth + "Authorization: Bearer bob\r\n\r\n", []string{"401"}},
		{"folded header", "GET /v1/status HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n", []string{"400", "401"}},
		{"space in a name", "GET /v1/status HTTP/1.1\r\n" + auth + "Origin : http://evil.example\r\n\r\n", []string{"400"}},
		{"connect", "CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n", []string{"403"}},
		{"absolute address", "GET http://evil.example/v1/status HTTP/1.1\r\n" + auth + "\r\n", []string{"403"}},
		{"header that never ends", "GET /v1/status HTTP/1.1\r\nHost: local", []string{""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
			// The server may answer and close before it has read all.
			_, _ = io.WriteString(conn, tt.send)
			line, err := bufio.NewReader(conn).ReadString('\n')
			_, status, _ := strings.Cut(strings.TrimSpace(line), " ")
			status, _, _ = strings.Cut(status, " ")
			if !slices.Contains(tt.status, status) {
				t.Errorf("%q %v, want %v", line, err, tt.status)
			}
		})
	}
	if resp, body := send(t, request(t, "GET", url+"/v1/status", "")); resp.StatusCode != 200 {
		t.Errorf("afterwards: %d %s", resp.StatusCode, body)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, c := range f.calls {
		if c.code != "" {
			t.Errorf("%s ran %q", id, c.code)
		}
	}
}
