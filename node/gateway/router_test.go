package gateway

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestSteeringReachesTheCall(t *testing.T) {
	f := newFake()
	started := scripted(f)
	_, srv := serve(t, f, nil)
	send(t, request(t, "POST", srv.URL+execute, `{"language":"python","code":"1","background":true}`))
	c := <-started
	at := srv.URL + "/v1/executions/" + c.id
	for _, a := range actions {
		resp, body := send(t, request(t, "POST", at+"/"+a.name, `{"text":"x"}`))
		if resp.StatusCode != 200 || strings.TrimSpace(body) != `{"ok":true}` {
			t.Errorf("%s: %d %s", a.name, resp.StatusCode, body)
		}
	}
	if resp, body := send(t, request(t, "POST", at+"/primitives/1", `{"result":null}`)); resp.StatusCode != 200 {
		t.Errorf("%d %s, want status 200", resp.StatusCode, body)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	want := `pause {"text":"x"},resume {"text":"x"},stop {"text":"x"},ask {"text":"x"},interject {"text":"x"},answer {"text":"x"}`
	if got := strings.Join(c.steered, ","); got != want {
		t.Errorf("steered %s", got)
	}
	if len(c.primitive) != 1 || c.primitive[0] != `{"result":null}` {
		t.Errorf("primitives %q", c.primitive)
	}
}

func TestParameters(t *testing.T) {
	g := New(Config{Service: newFake()})
	for path, want := range map[string]string{
		"/v1/actors/al%20ice":  "al ice",
		"/v1/actors/a%2Fb":     "a/b",
		"/v1/actors/%E2%9C%93": "✓",
		"/v1/actors/..":        "..",
		"/v1/actors/":          "",
		"/v1/actors/%zz":       "",
		"/v1/actors/a/b":       "",
		"/v1//actors/a":        "",
		"/v1/actors/" + strings.Repeat("a", maxSegment+1): "",
	} {
		r, params, _, miss := g.match("DELETE", path)
		if (miss == nil) != (want != "") || (r != nil && params["name"] != want) {
			t.Errorf("%.40s gives %v", path, params)
		}
	}
}

// Each row can be reached, and by its own path only.
func TestEveryRouteIsReached(t *testing.T) {
	g := New(Config{Service: newFake()})
	seen := map[string]bool{}
	for i := range g.routes {
		r := &g.routes[i]
		if seen[r.name()] {
			t.Errorf("%s is there twice", r.name())
		}
		seen[r.name()] = true
		path := strings.NewReplacer("{call_id}", "c", "{seq}", "1", "{name}", "n", "{id}", "i").Replace(r.pattern)
		found, _, _, miss := g.match(r.method, path)
		if miss != nil || found != r {
			t.Errorf("%s leads to %v %v", r.name(), found, miss)
		}
		if _, _, allow, miss := g.match("PATCH", path); miss == nil || miss.HTTP != 405 || !strings.Contains(allow, r.method) {
			t.Errorf("PATCH %s: %q %v, want miss.HTTP 405, allow with %v", path, allow, miss, r.method)
		}
		if r.doc == "" {
			t.Errorf("%s has no description", r.name())
		}
	}
}

func TestHead(t *testing.T) {
	_, srv := serve(t, newFake(), nil)
	for path, status := range map[string]int{"/": 200, "/healthz": 200, "/openapi.json": 200, "/v1/status": 405, "/v1/events": 405} {
		resp, body := send(t, request(t, "HEAD", srv.URL+path, ""))
		if resp.StatusCode != status || body != "" {
			t.Errorf("%s: %d %q, want status %v, body empty", path, resp.StatusCode, body, status)
		}
	}
}

// Whatever the path and the method: an answer comes at once, without a redirect,
// and what is no success is the object.
func FuzzRouter(f *testing.F) {
	for _, seed := range []string{"/", "//", "/v1", "/v1/tools/x", "/v1/executions/a/b", "/v1/executions/%2e%2e/stop", "/v1/actors/\x00", "*", "/v1/tools/" + strings.Repeat("e", 5000)} {
		f.Add("GET", seed, true)
		f.Add("POST", seed, false)
	}
	g := New(Config{Service: newFake()})
	g.Close() // so that events end
	f.Fuzz(func(t *testing.T, method, path string, token bool) {
		r := httptest.NewRequest("GET", "http://localhost/", nil)
		r.Method, r.URL = method, &url.URL{Scheme: "http", Host: "localhost", Path: path}
		if token {
			r.Header.Set("Authorization", "Bearer alice")
		}
		w := httptest.NewRecorder()
		began := time.Now()
		g.ServeHTTP(w, r)
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("took %s", took)
		}
		if w.Code >= 300 && w.Code < 400 {
			t.Errorf("redirected: %d", w.Code)
		}
		if w.Code >= 400 && method != http.MethodHead {
			var got map[string]json.RawMessage
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got["error"] == nil || got["code"] == nil {
				t.Errorf("%d with %s", w.Code, w.Body)
			}
		}
	})
}

// Whatever the body: the answer is the object, with one of the statuses of the
// contract.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{`{}`, program("1"), `{"background":true}`, `[`, "\xff", `{"language":"python","code":"\ud800"}`, `{"language":"python","code":"","background":"true"}`,
		strings.Repeat("[", 10_000), `{"code":1e999}`, "{\"language\":\"python\",\"code\":\"\\u0000\"}"} {
		f.Add(seed, "application/json", false)
		f.Add(seed, "", true)
	}
	g := New(Config{Service: newFake(), MaxBody: 64 << 10})
	f.Fuzz(func(t *testing.T, body, kind string, stream bool) {
		r := httptest.NewRequest("POST", "http://localhost"+execute, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer alice")
		r.Header["Content-Type"] = []string{kind}
		if stream {
			streaming(r)
		}
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		switch w.Code {
		case 200, 409, 413, 415, 422, 500, 503:
		default:
			t.Errorf("status %d", w.Code)
		}
		text := w.Body.String()
		if stream && w.Code == 200 {
			_, text, _ = strings.Cut(text, "event: result\ndata: ")
		}
		var got map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &got); err != nil || got["call_id"] == nil {
			t.Errorf("%d with %s", w.Code, text)
		}
		if used := g.bodies.used.Load(); used != 0 {
			t.Errorf("%d bytes are still held", used)
		}
	})
}
