package gateway

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

func description(t *testing.T, url string) object {
	t.Helper()
	resp, body := send(t, request(t, "GET", url+"/openapi.json", "", header("Authorization", "")))
	if resp.StatusCode != 200 {
		t.Fatalf("%d %s, want status 200", resp.StatusCode, body)
	}
	var doc object
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// at walks down a description; nil where the way ends.
func at(doc any, way ...string) any {
	for _, step := range way {
		m, ok := doc.(object)
		if !ok {
			return nil
		}
		doc = m[step]
	}
	return doc
}

func TestEveryRouteIsDescribed(t *testing.T) {
	g, srv := serve(t, newFake(), nil)
	doc := description(t, srv.URL)
	if doc["openapi"] != "3.1.0" || at(doc, "info", "version") != "test" {
		t.Errorf("%v %v", doc["openapi"], doc["info"])
	}
	described, ids := 0, map[string]bool{}
	paths, _ := doc["paths"].(object)
	for _, item := range paths {
		described += len(item.(object))
	}
	if described != len(g.routes) {
		t.Errorf("%d operations for %d routes", described, len(g.routes))
	}
	for i := range g.routes {
		r := &g.routes[i]
		op := at(doc, "paths", r.pattern, strings.ToLower(r.method))
		id, _ := at(op, "operationId").(string)
		if op == nil || id == "" || ids[id] || at(op, "summary") == "" || at(op, "responses", "200") == nil {
			t.Errorf("%s is described as %v", r.name(), op)
		}
		ids[id] = true
		inPath := 0
		list, _ := at(op, "parameters").([]any)
		for _, p := range list {
			if at(p, "in") == "path" && strings.Contains(r.pattern, "{"+at(p, "name").(string)+"}") {
				inPath++
			}
		}
		if inPath != strings.Count(r.pattern, "{") {
			t.Errorf("%s has %d of its parameters described", r.name(), inPath)
		}
	}
	for _, tool := range surfaces.Tools() {
		body := at(doc, "paths", "/v1/tools/"+tool.Name, "post", "requestBody", "content", "application/json", "schema", "$ref")
		if body != "#/components/schemas/"+tool.Name+"_arguments" {
			t.Errorf("%s takes %v", tool.Name, body)
		}
		for _, a := range tool.Arguments {
			if at(doc, "components", "schemas", tool.Name+"_arguments", "properties", a.Name) == nil {
				t.Errorf("%s: %s is not described", tool.Name, a.Name)
			}
		}
	}
	checkReferences(t, doc, doc)
}

// checkReferences finds references that lead nowhere.
func checkReferences(t *testing.T, doc object, in any) {
	t.Helper()
	switch v := in.(type) {
	case []any:
		for _, item := range v {
			checkReferences(t, doc, item)
		}
	case object:
		if ref, ok := v["$ref"].(string); ok && at(doc, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...) == nil {
			t.Errorf("%s leads nowhere", ref)
		}
		for _, item := range v {
			checkReferences(t, doc, item)
		}
	}
}

// Real answers, good and bad, fit what is described for their route and status,
// and have no member that is not described.
func TestAnswersFitTheDescription(t *testing.T) {
	f := newFake()
	g, srv := serve(t, f, nil)
	doc := description(t, srv.URL)
	f.onStart = rich
	send(t, request(t, "POST", srv.URL+execute, program("1"))) // call-1
	good := map[string]string{
		"POST /v1/tools/execute_code":                    program("1"),
		"POST /v1/executions/{call_id}/primitives/{seq}": `{"result":1}`,
		"GET /v1/executions/{call_id}/primitives":        "",
		"POST /v1/actors":                                `{"name":"x"}`,
		"POST /v1/executions/{call_id}/answer":           `{"id":"1","text":"x"}`,
		"POST /v1/tools/fork_session":                    `{"session_name":"a","new_name":"b"}`,
		"GET /v1/executions/{call_id}":                   "",
		"POST /v1/executions/{call_id}/ask":              `{"code":"1"}`,
		"POST /v1/tools/inspect_state":                   `{}`,
		"POST /v1/executions/{call_id}/interject":        `{"text":"x"}`,
		"POST /v1/tools/close_session":                   `{"session_name":"a"}`,
		"POST /v1/tools/reset_session":                   `{"session_name":"a"}`,
		"POST /v1/tools/list_sessions":                   `{}`,
		"DELETE /v1/actors/{name}":                       "",
		"POST /v1/nodes/{id}/drain":                      `{"draining":true}`,
		"POST /v1/nodes/{id}/labels":                     `{"labels":{"zone":"a"}}`,
		"DELETE /v1/nodes/{id}":                          "",
		"GET /v1/tokens":                                 "",
		"POST /v1/tokens":                                `{"role":"node"}`,
		"DELETE /v1/tokens/{id}":                         "",
		"GET /v1/authority":                              "",
		"POST /v1/authority":                             `{"step":"begin"}`,
		"GET /v1/status":                                 "",
		"GET /v1/nodes":                                  "",
		"GET /v1/actors":                                 "",
		"GET /v1/executions":                             "",
		"GET /healthz":                                   "",
		"GET /readyz":                                    "",
		"POST /v1/executions/{call_id}/pause":            "",
		"POST /v1/executions/{call_id}/resume":           "",
		"POST /v1/executions/{call_id}/stop":             "",
		"GET /v1/venvs":                                  "",
		"POST /v1/venvs":                                 `{"pyproject":"[project]"}`,
		"GET /v1/venvs/{id}":                             "",
		"DELETE /v1/venvs/{id}":                          "",
		"POST /v1/venvs/{id}/build":                      "",
		"GET /v1/functions":                              "",
		"POST /v1/functions":                             `{"source":"def f(): ..."}`,
		"GET /v1/functions/{name}":                       "",
		"DELETE /v1/functions/{name}":                    "",
		"POST /v1/functions/{name}/run":                  `{"args":[1]}`,
		"GET /v1/primitives":                             "",
		"POST /v1/primitives":                            `{"name":"files","command":["x"]}`,
		"DELETE /v1/primitives/{name}":                   "",
		"GET /v1/machines":                               "",
		"DELETE /v1/machines/{name}":                     "",
		"GET /v1/audit":                                  "",
		"GET /v1/audit/verify":                           "",
	}
	for i := range g.routes {
		r := &g.routes[i]
		if r.answers == nil {
			continue
		}
		body, ok := good[r.name()]
		if !ok {
			t.Errorf("%s: no request in this test", r.name())
			continue
		}
		path := strings.NewReplacer("{call_id}", "call-1", "{seq}", "1", "functions/{name}", "functions/double", "primitives/{name}", "primitives/files", "machines/{name}", "machines/laptop", "venvs/{id}", "venvs/1", "{name}", "alice", "nodes/{id}", "nodes/n1", "tokens/{id}", "tokens/t1").Replace(r.pattern)
		requests := map[string]*http.Request{
			"good":        request(t, r.method, srv.URL+path, body),
			"other site":  request(t, r.method, srv.URL+path, body, header("Origin", "http://evil.example")),
			"nobody":      request(t, r.method, srv.URL+path, body, header("Authorization", "")),
			"broken":      request(t, r.method, srv.URL+path, body, header("Authorization", "Bearer broken")),
			"not there":   request(t, r.method, srv.URL+strings.NewReplacer("call-1", "call-99", "double", "treble", "files", "nothing", "laptop", "desk", "venvs/1", "venvs/9", "alice", "zoe", "n1", "n99", "t1", "t99").Replace(path), body),
			"no argument": request(t, r.method, srv.URL+path, ""),
		}
		if r.tool != "" {
			requests["unknown coordinates"] = request(t, r.method, srv.URL+path, `{"code":"1","language":"pithon","state_mode":"statefull","surface":"locl"}`)
		}
		if slices.ContainsFunc(r.query, func(p parameter) bool { return p.name == actorQuery.name }) {
			requests["unknown actor"] = request(t, r.method, srv.URL+path+"?actor=zoe", body, header("Authorization", "Bearer operator"))
		}
		if r.body != nil || r.tool != "" {
			requests["no JSON"] = request(t, r.method, srv.URL+path, "a=b", header("Content-Type", "text/plain"))
		}
		requests["good"].Header.Set("Authorization", "Bearer "+map[bool]string{true: "operator", false: "alice"}[strings.Contains(r.doc, "For operators.")])
		for name, req := range requests {
			resp, text := send(t, req)
			if name == "good" && resp.StatusCode != 200 {
				t.Errorf("%s: %d %s", r.name(), resp.StatusCode, text)
			}
			schema := at(doc, "paths", r.pattern, strings.ToLower(r.method), "responses", strconv.Itoa(resp.StatusCode), "content", "application/json", "schema")
			if schema == nil {
				t.Errorf("%s, %s: %d is not described: %s", r.name(), name, resp.StatusCode, text)
				continue
			}
			var value any
			if err := json.Unmarshal([]byte(text), &value); err != nil {
				t.Fatal(err)
			}
			for _, fault := range misfits(doc, schema, value, "$") {
				t.Errorf("%s, %s: %s", r.name(), name, fault)
			}
		}
	}
}

// rich ends a call with everything that a result can have.
func rich(c *fakeCall) {
	r := c.Result()
	text, code := "int", 3
	r.Fail(surfaces.CodeException, "it raised")
	r.Result, r.ResultType, r.SessionID, r.SessionName = json.RawMessage(`{"a":[1,null]}`), &text, &code, &text
	r.Truncated = &surfaces.Truncation{Stdout: &surfaces.Shown{Shown: 1, Total: 2}}
	r.Display = []surfaces.Display{{MIME: "text/html", Data: "<b>"}}
	r.Exception = &surfaces.Exception{Type: "ValueError", Message: "m", Traceback: "t", Line: 2}
	r.Exit, r.Suggestion = &surfaces.Exit{Code: &code}, &text
	r.Fix = &surfaces.Fix{Drop: []string{"x"}, Set: map[string]any{"y": 1}}
	r.StateLost = surfaces.StateLost{Loss: &surfaces.Loss{Reason: "r", At: "2026-01-01T00:00:00Z", Epoch: 2}}
	r.StateDiff = &surfaces.StateDiff{Added: []string{"a"}}
	r.Usage = &surfaces.Usage{CPUMS: 1.5, MaxRSSBytes: 1, Primitives: 1}
	r.Notice = []surfaces.Notice{{Kind: "k", Text: "t"}}
	c.end(r)
}
