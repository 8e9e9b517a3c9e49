package main

import (
	"strings"
	"testing"
)

func TestReplRunsAScript(t *testing.T) {
	n := &fakeNode{answers: answers(), stream: events("started", started, "result", fine)}
	s := command(t, n, "x = 1\n\ndef f():\n    return 1\n\n    # more\nf()\n:mode read_only\nx\n:state full\n:reset\n:quit\nnever\n")
	args := []string{"repl", "-s", "notes", "-t", "3"}
	status := s.a.run(t.Context(), args)
	golden(t, "repl-script", s.transcript(args, status)+"sent "+strings.Join(n.requests(), "\nsent ")+"\n")
}

func TestReplSessions(t *testing.T) {
	for name, row := range map[string]struct {
		args []string
		want string
	}{
		"none named":    {nil, `{"code":"x","language":"python","state_mode":"stateful","session_id":0,"primitives":[]}`},
		"by name":       {[]string{"-s", "a"}, `{"code":"x","language":"python","state_mode":"stateful","session_name":"a","primitives":[]}`},
		"by id":         {[]string{"-l", "bash", "--session-id", "4"}, `{"code":"x","language":"bash","state_mode":"stateful","session_id":4,"primitives":[]}`},
		"stateless":     {[]string{"-m", "stateless"}, `{"code":"x","language":"python","state_mode":"stateless","primitives":[]}`},
		"in a venv":     {[]string{"--venv", "2"}, `{"code":"x","language":"python","state_mode":"stateful","session_id":0,"venv_id":2,"primitives":[]}`},
		"read only too": {[]string{"-m", "read_only", "-s", "a"}, `{"code":"x","language":"python","state_mode":"read_only","session_name":"a","primitives":[]}`},
	} {
		n := &fakeNode{answers: answers(), stream: events("started", started, "result", fine)}
		s := command(t, n, "x\n")
		if status := s.a.run(t.Context(), append([]string{"repl"}, row.args...)); status != 0 {
			t.Errorf("%s: status %d, want 0: %s", name, status, s.err.String())
		}
		if got := n.requests(); len(got) != 1 || got[0] != "POST /v1/tools/execute_code "+row.want {
			t.Errorf("%s: sent %q, want %s", name, got, row.want)
		}
	}
}

func TestReplScriptEndsAtTheFirstFailure(t *testing.T) {
	for _, row := range []struct {
		args  []string
		cells int
	}{{[]string{"repl"}, 1}, {[]string{"repl", "--keep-going"}, 3}} {
		n := &fakeNode{answers: answers(), stream: events("started", started, "result", raised)}
		s := command(t, n, "1/0\n2/0\n3/0\n")
		if status := s.a.run(t.Context(), row.args); status != 1 {
			t.Errorf("%v: status %d, want 1", row.args, status)
		}
		if got := n.requests(); len(got) != row.cells {
			t.Errorf("%v: %d cells ran, want %d", row.args, len(got), row.cells)
		}
		if got := strings.Count(s.err.String(), "ZeroDivisionError"); got != row.cells {
			t.Errorf("%v: %d failures were shown, want %d", row.args, got, row.cells)
		}
	}
}

func TestReplUnknownCommands(t *testing.T) {
	for text, want := range map[string]string{
		":sate":          "did you mean :state?",
		":frobnicate":    ":help tells",
		":mode sideways": `no state mode "sideways"`,
		":reset now":     `":reset now" is not a command`,
	} {
		s := command(t, &fakeNode{answers: answers()}, text+"\n")
		if status := s.a.run(t.Context(), []string{"repl"}); status != 2 || !strings.Contains(s.err.String(), want) {
			t.Errorf("%s: status %d, want 2: %s", text, status, s.err.String())
		}
	}
}

func TestHistoryFile(t *testing.T) {
	for _, row := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"HOME": "/h"}, "/h/.local/state/locus/history-python"},
		{map[string]string{"HOME": "/h", "XDG_STATE_HOME": "/s"}, "/s/locus/history-python"},
		{nil, ""},
	} {
		a := &app{getenv: func(k string) string { return row.env[k] }}
		if got, err := a.historyFile("python"); got != row.want || err != nil {
			t.Errorf("%v: %q %v, want %q", row.env, got, err, row.want)
		}
	}
}
