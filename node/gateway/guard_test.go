package gateway

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestGuard(t *testing.T) {
	g := New(Config{Service: newFake(), Hosts: []string{"locus.example"}})
	loopback := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7070}
	outside := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 7070}
	tests := []struct {
		name    string
		local   net.Addr
		host    string
		headers map[string]string
		method  string
		status  int
	}{
		{name: "loopback", local: loopback, host: "127.0.0.1:7070", status: 200},
		{name: "localhost", local: loopback, host: "LocalHost", status: 200},
		{name: "localhost with dot", local: loopback, host: "localhost.:7070", status: 200},
		{name: "other loopback", local: loopback, host: "127.8.9.1:80", status: 200},
		{name: "IPv6", local: &net.TCPAddr{IP: net.IPv6loopback}, host: "[::1]:7070", status: 200},
		{name: "own name", local: loopback, host: "LOCUS.example:443", status: 200},
		{name: "rebound name", local: loopback, host: "evil.example:7070", status: 403},
		{name: "rebound name, connection unknown", host: "evil.example", status: 403},
		{name: "name that begins alike", local: loopback, host: "localhost.evil.example", status: 403},
		{name: "address in a name", local: loopback, host: "127.0.0.1.evil.example", status: 403},
		{name: "address of the network over loopback", local: loopback, host: "192.0.2.1:7070", status: 403},
		{name: "no host", local: loopback, host: "", status: 403},
		{name: "broken host", local: loopback, host: "[::1", status: 403},
		{name: "from outside", local: outside, host: "node7.corp.example", status: 200},
		{name: "own origin", local: loopback, host: "localhost:7070", headers: map[string]string{"Origin": "http://localhost:7070"}, status: 200},
		{name: "own origin, usual port", local: outside, host: "node7", headers: map[string]string{"Origin": "https://node7:443"}, status: 200},
		{name: "other origin", local: loopback, host: "localhost:7070", headers: map[string]string{"Origin": "http://evil.example"}, status: 403},
		{name: "other port", local: loopback, host: "localhost:7070", headers: map[string]string{"Origin": "http://localhost:3000"}, status: 403},
		{name: "other origin from outside", local: outside, host: "node7", headers: map[string]string{"Origin": "http://evil.example"}, status: 403},
		{name: "null origin", local: loopback, host: "localhost", headers: map[string]string{"Origin": "null"}, status: 403},
		{name: "empty origin", local: loopback, host: "localhost", headers: map[string]string{"Origin": ""}, status: 403},
		{name: "origin with user", local: loopback, host: "localhost", headers: map[string]string{"Origin": "http://localhost@evil.example"}, status: 403},
		{name: "extension", local: loopback, host: "localhost", headers: map[string]string{"Origin": "chrome-extension://localhost"}, status: 403},
		{name: "image on another site", local: loopback, host: "localhost", headers: map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, status: 403},
		{name: "link on another site", local: loopback, host: "localhost", headers: map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, status: 200},
		{name: "form on another site", local: loopback, host: "localhost", method: "POST", headers: map[string]string{"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate"}, status: 403},
		{name: "typed address", local: loopback, host: "localhost", headers: map[string]string{"Sec-Fetch-Site": "none"}, status: 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			method, path := "GET", "/openapi.json"
			if tt.method != "" {
				method, path = tt.method, execute
			}
			r := httptest.NewRequest(method, path, strings.NewReader(""))
			r.Host = tt.host
			if tt.local != nil {
				r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, tt.local))
			}
			for k, v := range tt.headers {
				r.Header.Set(k, v)
			}
			w := httptest.NewRecorder()
			g.ServeHTTP(w, r)
			if w.Code != tt.status {
				t.Errorf("status %d, want %d: %s", w.Code, tt.status, w.Body)
			}
			if w.Header().Get("Access-Control-Allow-Origin") != "" {
				t.Error("another site may read the answer")
			}
		})
	}
	r := httptest.NewRequest("GET", "http://localhost/openapi.json", nil)
	r.Header["Origin"] = []string{"http://localhost", "http://evil.example"}
	w := httptest.NewRecorder()
	if g.ServeHTTP(w, r); w.Code != 403 {
		t.Errorf("two origins: %d", w.Code)
	}
}

func TestBearer(t *testing.T) {
	for _, tt := range []struct {
		headers []string
		token   string
	}{
		{[]string{"Bearer abc"}, "abc"},
		{[]string{"bearer   a-b._~+/="}, "a-b._~+/="},
		{nil, ""},
		{[]string{"Bearer abc", "Bearer abc"}, ""},
		{[]string{"Basic abc"}, ""},
		{[]string{"Bearer"}, ""},
		{[]string{"Bearer "}, ""},
		{[]string{"Bearerabc"}, ""},
		{[]string{"Bearer a b"}, ""},
		{[]string{"Bearer a\x00b"}, ""},
		{[]string{"Bearer é"}, ""},
		{[]string{"Bearer " + strings.Repeat("a", maxToken)}, strings.Repeat("a", maxToken)},
		{[]string{"Bearer " + strings.Repeat("a", maxToken+1)}, ""},
	} {
		token, fault := bearer(tt.headers)
		if token != tt.token || (fault == "") != (token != "") {
			t.Errorf("%.40q gives %.40q and %q", tt.headers, token, fault)
		}
		for _, h := range tt.headers {
			if fault != "" && len(h) > 8 && strings.Contains(fault, h[7:]) {
				t.Errorf("the fault %q quotes the header", fault)
			}
		}
	}
}

// Which paths need a token, and which do not.
func TestAccess(t *testing.T) {
	g := New(Config{Service: newFake()})
	for i := range g.routes {
		r := &g.routes[i]
		path := strings.NewReplacer("{call_id}", "c", "{seq}", "1", "{name}", "n").Replace(r.pattern)
		for _, tt := range []struct {
			name string
			edit func(*http.Request)
		}{{"plain", func(*http.Request) {}}, {"proxied", func(r *http.Request) { r.Header.Set("X-Forwarded-For", "192.0.2.9") }}} {
			req := httptest.NewRequest(r.method, "http://localhost"+path, nil)
			tt.edit(req)
			w := httptest.NewRecorder()
			g.ServeHTTP(w, req)
			open := r.access == accessOpen || (r.access == accessLoopback && tt.name == "plain")
			if (w.Code == 401) == open {
				t.Errorf("%s %s: %d", r.name(), tt.name, w.Code)
			}
			if wantOpen := !isAPI(r.pattern); (r.access != accessToken) != wantOpen {
				t.Errorf("%s has access %d", r.name(), r.access)
			}
		}
	}
}
