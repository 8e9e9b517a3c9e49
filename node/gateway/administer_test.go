package gateway

import (
	"net/http"
	"strings"
	"testing"
)

var asOperator = header("Authorization", "Bearer operator")

// What an operator sends arrives as it was sent, and the answer says so.
func TestOperatorRoutes(t *testing.T) {
	_, srv := serve(t, newFake(), nil)
	for _, row := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", "/v1/nodes/n1/drain", `{"draining":true}`, 200, `"draining":true`},
		{"POST", "/v1/nodes/n1/drain", `{"draining":false}`, 200, `"draining":false`},
		{"POST", "/v1/nodes/n2/drain", `{"draining":true}`, 404, "there is no such node"},
		{"POST", "/v1/nodes/n1/drain", `{"drain":true}`, 422, `{\"draining\": true}`},
		{"POST", "/v1/nodes/n1/labels", `{"labels":{"zone":"a"}}`, 200, `"labels":{"zone":"a"}`},
		{"POST", "/v1/nodes/n1/labels", `{"labels":"zone=a"}`, 422, "the body is not what is taken here"},
		{"DELETE", "/v1/nodes/n1", "", 200, `"state":"removed"`},
		{"DELETE", "/v1/nodes/n2", "", 404, "there is no such node"},
		{"GET", "/v1/tokens", "", 200, `{"tokens":[]}`},
		{"POST", "/v1/tokens", `{"role":"node","ttl_s":60,"uses":3,"labels":{"a":"b"}}`, 200, `"role":"node","labels":{"a":"b"}`},
		{"POST", "/v1/tokens", `{"role":"node","ttl_s":"1m"}`, 422, `{\"role\": \"node\"}`},
		{"DELETE", "/v1/tokens/t1", "", 200, `"revoked_at":"2`},
		{"DELETE", "/v1/tokens/t2", "", 404, "there is no such token"},
		{"GET", "/v1/machines", "", 200, `"name":"laptop"`},
		{"GET", "/v1/machines?actor=alice", "", 200, `"machines":[{`},
		{"DELETE", "/v1/machines/laptop", "", 200, `"state":"unlinked"`},
		{"DELETE", "/v1/machines/desk", "", 404, "there is no such machine"},
		{"GET", "/v1/authority", "", 200, `"phase":"stable"`},
		{"POST", "/v1/authority", `{"step":"begin"}`, 200, `"phase":"begin"`},
		{"POST", "/v1/authority", "", 422, `{\"step\": \"begin\"}`},
	} {
		resp, text := send(t, request(t, row.method, srv.URL+row.path, row.body, asOperator))
		if resp.StatusCode != row.status || !strings.Contains(text, row.want) {
			t.Errorf("%s %s %s: %d %s, want %d with %s", row.method, row.path, row.body, resp.StatusCode, text, row.status, row.want)
		}
	}
}

// No list in an answer is null, so that who reads one need not know.
func TestAuthorityHasNoNullLists(t *testing.T) {
	_, srv := serve(t, newFake(), nil)
	_, text := send(t, request(t, "GET", srv.URL+"/v1/authority", "", asOperator))
	if want := `{"phase":"stable","roots":["pin"],"holders":[],"waiting":[]}`; strings.TrimSpace(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
}

func TestOnlyOperatorsAdminister(t *testing.T) {
	g, srv := serve(t, newFake(), nil)
	bodies := map[string]string{
		"POST /v1/nodes/{id}/drain": `{"draining":true}`, "POST /v1/nodes/{id}/labels": `{"labels":{}}`, "DELETE /v1/nodes/{id}": "",
		"GET /v1/tokens": "", "POST /v1/tokens": `{"role":"node"}`, "DELETE /v1/tokens/{id}": "",
		"GET /v1/authority": "", "POST /v1/authority": `{"step":"begin"}`,
	}
	for i := range g.routes {
		r := &g.routes[i]
		body, ours := bodies[r.name()]
		if !ours {
			continue
		}
		delete(bodies, r.name())
		resp, text := send(t, request(t, r.method, srv.URL+strings.ReplaceAll(r.pattern, "{id}", "n1"), body))
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d %s, want status %v", r.name(), resp.StatusCode, text, http.StatusForbidden)
		}
		if !strings.Contains(r.doc, "For operators.") {
			t.Errorf("%s does not say for whom it is", r.name())
		}
	}
	for name := range bodies {
		t.Errorf("there is no %s", name)
	}
}
