package main

import (
	"strings"
	"testing"
)

// buildOf is a node whose build reports one line of progress and ends with an event.
func buildOf(name, data string) *fakeNode {
	return &fakeNode{answers: answers(), stream: events("notice", `{"kind":"environment","text":"Resolved 3 packages"}`, name, data)}
}

const buildFailure = `{"status":"failed","error":"the environment could not be built: uv failed","error_type":"environment","code":"build_failed","stderr":"no such package","state_lost":false}`

func TestVenvBuild(t *testing.T) {
	text := ""
	for _, row := range []struct {
		args []string
		data string
	}{
		{[]string{"venv", "build", "1"}, venvBody},
		{[]string{"venv", "build", "1", "--json"}, venvBody},
		{[]string{"venv", "build", "1"}, buildFailure},
		{[]string{"venv", "build", "1", "--json"}, buildFailure},
	} {
		s := command(t, buildOf("result", row.data), "")
		text += s.transcript(row.args, s.a.run(t.Context(), row.args))
	}
	golden(t, "venv-build", text)
}

// The environment of a function is built before the function is stored, and the progress is
// shown.
func TestFunctionAddBuildsItsEnvironment(t *testing.T) {
	n := buildOf("result", venvBody)
	s := command(t, n, "")
	if status := s.a.run(t.Context(), []string{"fn", "add", "-f", "testdata/forecast.py", "--venv", "1"}); status != 0 ||
		s.out.String() != "forecast\n" || !strings.Contains(s.err.String(), "Resolved 3 packages") {
		t.Fatalf("status %d, want 0: %s%s, want the name forecast and the progress", status, s.out.String(), s.err.String())
	}
	if sent := n.requests(); len(sent) != 2 || sent[0] != "POST /v1/venvs/1/build" || !strings.Contains(sent[1], `"venv_id":1`) {
		t.Errorf("sent %q", sent)
	}
	n = buildOf("result", buildFailure)
	if s = command(t, n, ""); s.a.run(t.Context(), []string{"fn", "add", "-f", "testdata/forecast.py", "--venv", "1"}) == 0 || len(n.requests()) != 1 {
		t.Errorf("a function was stored in spite of %s", s.err.String())
	}
}

func TestFunctionRun(t *testing.T) {
	const done = `{"call_id":"c1","status":"done","stdout":"hello\n","stderr":"","result":7,"result_type":"int","state_lost":false}`
	for name, row := range map[string]struct {
		args []string
		sent string
	}{
		"nothing":   {nil, `{}`},
		"by name":   {[]string{"--arg", "days=7", "--arg", "region=north", "--arg", `q="7"`}, `{"kwargs":{"days":7,"q":"7","region":"north"}}`},
		"an object": {[]string{`{"days": 7}`, "--arg", "a=null"}, `{"kwargs":{"a":null,"days":7}}`},
		"an array":  {[]string{`[1, "x"]`}, `{"args":[1,"x"]}`},
		"one value": {[]string{`"x"`}, `{"args":["x"]}`},
	} {
		n := &fakeNode{answers: answers(), stream: events("started", `{"call_id":"c1","node":"n1"}`, "stdout", `{"text":"hello\n"}`, "result", done)}
		s := command(t, n, "")
		status := s.a.run(t.Context(), append([]string{"fn", "run", "forecast"}, row.args...))
		if status != 0 || s.out.String() != "hello\n7\n" {
			t.Errorf("%s: status %d, want 0: %q %q", name, status, s.out.String(), s.err.String())
		}
		if want := "POST /v1/functions/forecast/run " + row.sent; n.requests()[0] != want {
			t.Errorf("%s: sent %s, want %s", name, n.requests()[0], want)
		}
	}
	s := command(t, &fakeNode{answers: answers()}, "")
	if status := s.a.run(t.Context(), []string{"fn", "run", "nothing"}); status != 2 || !strings.Contains(s.err.String(), "There is no such thing") {
		t.Errorf("status %d, want 2: %s", status, s.err.String())
	}
}

func TestLibraryMisuse(t *testing.T) {
	for _, row := range []struct {
		args string
		want string
	}{
		{"venv add", "give it with -f pyproject.toml"},
		{"venv add -f testdata/nothing.toml", "no such file"},
		{"venv show ml", "an environment's ID is a number of 1 or more"},
		{"venv build 0", "an environment's ID is a number of 1 or more"},
		{"fn add", "there is no file to store"},
		{"fn add -f testdata/forecast.py --venv 0", "--venv cannot be 0"},
		{"fn search", "there is nothing to search for"},
		{"fn run forecast {days", "are not JSON"},
		{"fn run forecast --arg days", `--arg cannot be "days"`},
		{"fn run forecast {\"a\":1} --arg a=2", `--arg cannot be "a=2"`},
		{"primitives add", "takes one NAME before --"},
		{"primitives add files mcp-server-files", "put -- before the command"},
		{"primitives add -- mcp-server-files", "takes one NAME before --"},
		{"primitives add files --env NOT_SET_HERE -- x", `--env cannot be used as it is given for "NOT_SET_HERE"`},
		{"primitives add files --header Authorization --url http://x", "--header cannot be used"},
	} {
		n := &fakeNode{answers: answers()}
		s := command(t, n, "")
		if status := s.a.run(t.Context(), strings.Fields(row.args)); status != 2 || !strings.Contains(s.err.String(), row.want) {
			t.Errorf("%s: status %d, want 2: %s", row.args, status, s.err.String())
		}
		if sent := n.requests(); len(sent) != 0 {
			t.Errorf("%s: sent %v, want nothing", row.args, sent)
		}
	}
}

// A secret need not be typed where others can see it.
func TestEnvFlagTakesValuesFromTheEnvironment(t *testing.T) {
	n := &fakeNode{answers: answers()}
	s := command(t, n, "")
	if status := s.a.run(t.Context(), []string{"primitives", "add", "files", "--env", "LOCUS_TOKEN", "--", "x"}); status != 0 {
		t.Fatalf("status %d, want 0: %s", status, s.err.String())
	}
	if sent := n.requests()[0]; !strings.Contains(sent, `"env":{"LOCUS_TOKEN":"good"}`) {
		t.Error(sent)
	}
}
