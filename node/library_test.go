package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// ask sends a request and decodes the answer into out, and returns a refusal if it is one.
func (w *world) ask(method, path string, body, out any) (int, surfaces.Result) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := w.request(ctx, method, path, body)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	var refused surfaces.Result
	if resp.StatusCode != 200 {
		out = &refused
	}
	if err := json.Unmarshal(b, out); err != nil {
		w.t.Fatalf("%s %s: %v in %.300s", method, path, err, b)
	}
	return resp.StatusCode, refused
}

// refuses checks that a request is refused with a status and a message.
func (w *world) refuses(method, path string, body any, status int, message string) {
	w.t.Helper()
	var none json.RawMessage
	got, refused := w.ask(method, path, body, &none)
	if got != status || refused.Error == nil || !strings.Contains(*refused.Error, message) {
		w.t.Errorf("%s %s: status %d, %s, want %d with %q", method, path, got, show(refused), status, message)
	}
}

func TestVenvsAreStored(t *testing.T) {
	w := fresh(t)
	other := fresh(t)
	text := fmt.Sprintf("[project]\nname = \"plots\" \ndependencies = []\n# %s\n", t.Name())
	var v, again gateway.VenvInfo
	if status, refused := w.ask("POST", "/v1/venvs", args{"pyproject": text}, &v); status != 200 {
		t.Fatalf("%d %s, want status 200", status, show(refused))
	}
	if v.ID < 1 || v.Name != "plots" || !v.Created || v.Locked || len(v.Built) != 0 || len(v.Digest) != 64 || strings.Contains(v.Pyproject, "\" \n") {
		t.Errorf("got %+v, want a new environment called plots, neither locked nor built", v)
	}
	// Other line ends and trailing blanks do not make another environment.
	other.ask("POST", "/v1/venvs", args{"pyproject": strings.ReplaceAll(text, "\n", "  \r\n"), "name": "mine"}, &again)
	if again.ID != v.ID || again.Created || again.Name != "plots" {
		t.Errorf("got %+v, want id %v, no Created, Name \"plots\"", again, v.ID)
	}
	path := fmt.Sprintf("/v1/venvs/%d", v.ID)
	var list gateway.VenvList
	if w.ask("GET", "/v1/venvs", nil, &list); len(list.Venvs) == 0 {
		t.Error("the list is empty")
	}
	other.refuses("DELETE", path, nil, 403, "may not change it")
	w.refuses("GET", "/v1/venvs/99999", nil, 404, "there is no environment 99999")
	if status, refused := w.ask("DELETE", path, nil, &v); status != 200 {
		t.Errorf("%d %s, want status 200", status, show(refused))
	}
	w.refuses("GET", path, nil, 404, "there is no environment")
	w.refuses("DELETE", path, nil, 404, "there is no environment")
	code(t, w.exec(args{"code": "1", "venv_id": v.ID}), surfaces.CodeVenvNotFound)
}

func TestInvalidVenvsAreRefused(t *testing.T) {
	w := fresh(t)
	for text, want := range map[string]string{
		"":                "no [project] table",
		"[project":        "line 2",
		"[tool.uv]\n":     "no [project] table",
		"[project]\n\x00": "not text in UTF-8",
		"[project]\n# " + strings.Repeat("x", 64<<10): "the limit is 65536",
	} {
		w.refuses("POST", "/v1/venvs", args{"pyproject": text}, 422, want)
	}
	for _, name := range []string{" ", "a\nb", strings.Repeat("x", 65)} {
		w.refuses("POST", "/v1/venvs", args{"pyproject": "[project]\n", "name": name}, 422, "is not a name for an environment")
	}
}

func TestMissingFunctions(t *testing.T) {
	w := fresh(t)
	var list gateway.FunctionList
	if status, _ := w.ask("GET", "/v1/functions?q=no+such+words", nil, &list); status != 200 || list.Functions == nil || len(list.Functions) != 0 {
		t.Errorf("%d %+v, want status 200, 0 Functions", status, list)
	}
	w.refuses("GET", "/v1/functions/nothing", nil, 404, `there is no function "nothing"`)
	w.refuses("DELETE", "/v1/functions/nothing", nil, 404, `there is no function "nothing"`)
	w.refuses("POST", "/v1/functions/nothing/run", args{}, 404, `there is no function "nothing"`)
	w.refuses("POST", "/v1/functions", args{"source": " \n"}, 422, "the source is empty")
	w.refuses("POST", "/v1/functions", args{"source": "x", "name": "a-b"}, 422, "is not a name for a function")
	w.refuses("POST", "/v1/functions", args{"source": "x", "name": "lambda"}, 422, "is not a name for a function")
	w.refuses("POST", "/v1/functions", args{"source": strings.Repeat("x", 256<<10+1)}, 422, "the limit is 262144")
	w.refuses("POST", "/v1/functions", args{"source": "def f(): ...", "venv_id": 99999}, 422, "venv_id 99999 does not exist")
}

func TestServersOfPrimitives(t *testing.T) {
	operator := start(t, t.TempDir())
	ada, bob := operator.newActor(t, "ada"), operator.newActor(t, "bob")
	var s gateway.ServerInfo
	put := args{"actor": "ada", "name": "files", "command": []string{"mcp", "-v"}, "env": args{"TOKEN": "secret"}, "allow": []string{"read"}}
	if status, refused := operator.ask("POST", "/v1/primitives", put, &s); status != 200 {
		t.Fatalf("%d %s, want status 200", status, show(refused))
	}
	if shown := fmt.Sprintf("%+v", s); s.Actor != "ada" || s.State != "idle" || fmt.Sprint(s.Env) != "[TOKEN]" || strings.Contains(shown, "secret") {
		t.Error(shown)
	}
	operator.ask("POST", "/v1/primitives", args{"actor": "ada", "name": "web", "url": "https://x/mcp", "headers": args{"Authorization": "secret"}}, &s)
	var list gateway.ServerList
	if ada.ask("GET", "/v1/primitives", nil, &list); len(list.Servers) != 2 || fmt.Sprint(list.Servers[1].Headers) != "[Authorization]" {
		t.Errorf("got %+v, want two servers, the second with the header Authorization", list)
	}
	if operator.ask("GET", "/v1/primitives?actor=ada", nil, &list); len(list.Servers) != 2 {
		t.Errorf("got %+v, want 2 Servers", list)
	}
	if bob.ask("GET", "/v1/primitives", nil, &list); len(list.Servers) != 0 {
		t.Errorf("got %+v, want 0 Servers", list)
	}
	bob.refuses("GET", "/v1/primitives?actor=ada", nil, 403, "may not administer")
	ada.refuses("POST", "/v1/primitives", args{"name": "mine", "command": []string{"x"}}, 403, "may not administer")
	ada.refuses("DELETE", "/v1/primitives/files", nil, 403, "may not administer")
	operator.refuses("GET", "/v1/primitives?actor=eve", nil, 404, `there is no actor "eve"`)
	operator.refuses("POST", "/v1/primitives", args{"actor": "eve", "name": "x", "command": []string{"x"}}, 404, `there is no actor "eve"`)
	operator.refuses("DELETE", "/v1/primitives/files", nil, 404, "has no server of primitives")
	if status, refused := operator.ask("DELETE", "/v1/primitives/files?actor=ada", nil, &s); status != 200 {
		t.Errorf("%d %s, want status 200", status, show(refused))
	}
	operator.refuses("DELETE", "/v1/primitives/files?actor=ada", nil, 404, "has no server of primitives")
}

func TestInvalidServersAreRefused(t *testing.T) {
	w := start(t, t.TempDir())
	x := []string{"x"}
	for want, body := range map[string]args{
		"is not a name for a server":       {"name": "a.b", "command": x},
		"is reserved":                      {"name": "functions", "command": x},
		"neither a command nor a URL":      {"name": "a"},
		"both a command and a URL":         {"name": "a", "command": x, "url": "http://x"},
		"argument 0 of the command":        {"name": "a", "command": []string{" "}},
		"argument 1 of the command":        {"name": "a", "command": []string{"x", "a\x00b"}},
		"is not the address of a server":   {"name": "a", "url": "ftp://x"},
		"a user's name or password":        {"name": "a", "url": "http://u:p@x"},
		"headers are for servers at a URL": {"name": "a", "command": x, "headers": args{"H": "v"}},
		"env is for servers that are":      {"name": "a", "url": "http://x", "env": args{"H": "v"}},
		"env cannot have the name":         {"name": "a", "command": x, "env": args{"A=B": "v"}},
		`the value of "H" in headers`:      {"name": "a", "url": "http://x", "headers": args{"H": "secret\r\nX: y"}},
		"allow holds":                      {"name": "a", "command": x, "allow": []string{""}},
		"the settings of server":           {"name": "a", "command": strings.Split(strings.Repeat(strings.Repeat("x", 8000)+" ", 9), " ")},
	} {
		w.refuses("POST", "/v1/primitives", body, 422, want)
	}
	_, refused := w.ask("POST", "/v1/primitives", args{"name": "a", "url": "http://x", "headers": args{"H": "secret\n"}}, new(json.RawMessage))
	if strings.Contains(show(refused), "secret") {
		t.Error(show(refused))
	}
}
