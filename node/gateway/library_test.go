package gateway

import (
	"strings"
	"testing"
)

func TestLibraryRoutes(t *testing.T) {
	_, srv := serve(t, newFake(), nil)
	for _, row := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/v1/venvs", "", 200, `{"venvs":[]}`},
		{"POST", "/v1/venvs", `{"pyproject":"[project]","name":"ml"}`, 200, `"name":"ml"`},
		{"POST", "/v1/venvs", `{"pyproject":""}`, 422, "the pyproject is empty"},
		{"POST", "/v1/venvs", `{"text":""}`, 422, `{\"pyproject\":`},
		{"GET", "/v1/venvs/1", "", 200, `"built":["n1"]`},
		{"GET", "/v1/venvs/9", "", 404, "no such environment"},
		{"GET", "/v1/venvs/ml", "", 404, "an environment has a number"},
		{"GET", "/v1/venvs/0", "", 404, "an environment has a number"},
		{"DELETE", "/v1/venvs/1", "", 200, `"id":1`},
		{"POST", "/v1/venvs/1/build", "", 200, `"id":1`},
		{"POST", "/v1/venvs/2/build", "", 200, `"stderr":"no such package"`},
		{"POST", "/v1/venvs/9/build", "", 404, "no such environment"},
		{"GET", "/v1/functions", "", 200, `"name":"double"`},
		{"GET", "/v1/functions?q=treble", "", 200, `{"functions":[]}`},
		{"POST", "/v1/functions", `{"source":"def f(): ...","name":"f","venv_id":3}`, 200, `"venv_id":3`},
		{"GET", "/v1/functions/double", "", 200, `"source":"def double(x): ..."`},
		{"GET", "/v1/functions/treble", "", 404, "no such function"},
		{"DELETE", "/v1/functions/double", "", 200, `"name":"double"`},
		{"POST", "/v1/functions/double/run", `{"args":[1],"kwargs":{"a":2}}`, 200, `"status":"done"`},
		{"POST", "/v1/functions/double/run", "", 200, `"status":"done"`},
		{"POST", "/v1/functions/double/run", `{"args":{}}`, 422, `{\"args\": [1]`},
		{"POST", "/v1/functions/treble/run", `{}`, 404, "no such function"},
		{"GET", "/v1/primitives?actor=bob", "", 200, `{"servers":[]}`},
		{"POST", "/v1/primitives", `{"name":"files","command":["x"],"allow":["read"]}`, 200, `"allow":["read"]`},
		{"DELETE", "/v1/primitives/files?actor=bob", "", 200, `"actor":"bob"`},
		{"DELETE", "/v1/primitives/web", "", 404, "no such server"},
	} {
		resp, text := send(t, request(t, row.method, srv.URL+row.path, row.body, asOperator))
		if resp.StatusCode != row.status || !strings.Contains(text, row.want) {
			t.Errorf("%s %s %s: %d %s, want %d with %s", row.method, row.path, row.body, resp.StatusCode, text, row.status, row.want)
		}
	}
	for _, row := range [][2]string{{"GET", "/v1/primitives?actor=bob"}, {"POST", "/v1/primitives"}, {"DELETE", "/v1/primitives/files"}} {
		body := map[string]string{"POST": `{"name":"x","command":["x"]}`}[row[0]]
		if resp, text := send(t, request(t, row[0], srv.URL+row[1], body)); resp.StatusCode != 403 {
			t.Errorf("%v for who is no operator: %d %s", row, resp.StatusCode, text)
		}
	}
}

// A build that is followed tells its progress and ends with what came of it.
func TestBuildStreamsItsProgress(t *testing.T) {
	_, srv := serve(t, newFake(), nil)
	for path, want := range map[string]string{
		"/v1/venvs/1/build": "id: 1\nevent: notice\ndata: {\"kind\":\"environment\",\"text\":\"resolving\"}\n\nid: 2\nevent: result\ndata: {\"id\":1,",
		"/v1/venvs/2/build": "\"stderr\":\"no such package\"",
	} {
		resp, text := send(t, request(t, "POST", srv.URL+path, "", streaming))
		if resp.StatusCode != 200 || !strings.Contains(text, want) || !strings.HasPrefix(resp.Header.Get("Content-Type"), kindStream) {
			t.Errorf("%s: %d %q", path, resp.StatusCode, text)
		}
	}
	if resp, text := send(t, request(t, "POST", srv.URL+"/v1/venvs/9/build", "", streaming)); resp.StatusCode != 404 {
		t.Errorf("%d %s, want status 404", resp.StatusCode, text)
	}
	resp, text := send(t, request(t, "POST", srv.URL+"/v1/functions/double/run", `{"args":[1]}`, streaming))
	if resp.StatusCode != 200 || !strings.Contains(text, "event: started") || !strings.Contains(text, "event: result") {
		t.Errorf("%d %q, want status 200, text with \"event: started\", text with \"event: result\"", resp.StatusCode, text)
	}
}
