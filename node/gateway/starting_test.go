package gateway

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

// A node that is starting refuses what it is asked, and serves it once it has started. No
// request waits meanwhile: the start may take as long as the mesh has no majority.
func TestRequestsToAStartingNodeAreRefused(t *testing.T) {
	started := make(chan struct{})
	g := New(Config{Service: NewFake(nil, 0), Started: started})
	defer g.Close()
	ask := func(method, path string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(`{"code": "1", "language": "python"}`))
		r.Host = "127.0.0.1"
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		return w
	}
	for path, method := range map[string]string{"/v1/tools/execute_code": "POST", "/v1/nodes": "GET", "/readyz": "GET", "/metrics": "GET", "/": "GET"} {
		w := ask(method, path)
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), string(surfaces.CodeNoCapacity)) {
			t.Errorf("%s: status %d, Retry-After %q: %s", path, w.Code, w.Header().Get("Retry-After"), w.Body)
		}
	}
	if w := ask("GET", "/healthz"); w.Code != http.StatusOK {
		t.Errorf("/healthz: status %d: %s", w.Code, w.Body)
	}
	close(started)
	if w := ask("POST", "/v1/tools/execute_code"); w.Code == http.StatusServiceUnavailable {
		t.Errorf("status %d once it has started: %s", w.Code, w.Body)
	}
}
