package surfaces

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestSelectors leads selectors to sessions. Want is language/venv/id, with a
// question mark for a session that does not exist.
func TestSelectors(t *testing.T) {
	rows := []struct{ tool, args, want string }{
		{ToolInspect, `{}`, "python/0/0?"},
		{ToolInspect, `{"session_id":0}`, "python/0/0?"},
		{ToolInspect, `{"session_name":"sales"}`, "python/0/1"},
		{ToolInspect, `{"session_name":"model"}`, "python/1/1"},
		{ToolInspect, `{"session_name":"build","language":"bash","session_id":1}`, "bash/0/1"},
		{ToolInspect, `{"session_id":2}`, "python/0/2"},
		{ToolInspect, `{"session_id":1,"venv_id":1}`, "python/1/1"},
		{ToolInspect, `{"session_id":1,"language":"bash"}`, "bash/0/1"},
		{ToolClose, `{"session_name":"never was"}`, "/0/0?"},
		{ToolClose, `{"session_id":44}`, "python/0/44?"},
		{ToolClose, `{"session_id":44,"language":"zsh"}`, "zsh/0/44?"},
		{ToolClose, `{"session_id":2}`, "python/0/2"},
		{ToolReset, `{"session_id":0,"language":"python"}`, "python/0/0?"},
		{ToolFork, `{"session_name":"sales","new_name":"copy"}`, "python/0/1"},
	}
	for _, row := range rows {
		s, r := ResolveSelector([]byte(row.args), row.tool, world())
		if r != nil {
			t.Errorf("%s %s: %s, want no refusal", row.tool, row.args, r.Message)
			continue
		}
		key := s.Session.Key
		got := strings.Join([]string{string(key.Language), encode(t, key.Venv), encode(t, key.ID)}, "/")
		if !s.Session.Exists {
			got += "?"
		}
		if got != row.want || key.Actor != "a" || s.Tool != row.tool {
			t.Errorf("%s %s: %s %+v, want %s", row.tool, row.args, got, s, row.want)
		}
	}
}

func TestSelectorRefusals(t *testing.T) {
	rows := []struct {
		tool, args string
		code       Code
		fix        string
		says       []string
	}{
		{ToolList, `{"limit":5}`, CodeInvalidArgument, `{"drop":["limit"],"set":{}}`, nil},
		{ToolInspect, `{"session_nam":"sales"}`, CodeInvalidArgument, `{"drop":["session_nam"],"set":{"session_name":"sales"}}`, []string{"Rename"}},
		{ToolInspect, `{"detail":"sumary"}`, CodeInvalidArgument, `{"drop":[],"set":{"detail":"summary"}}`, nil},
		{ToolInspect, `{"detail":"everything"}`, CodeInvalidArgument, "", []string{`"summary"`, `"names"`, `"full"`}},
		{ToolInspect, `{"session_name":"slaes"}`, CodeSessionNotFound, `{"drop":[],"set":{"session_name":"sales"}}`, nil},
		{ToolInspect, `{"session_name":"weather"}`, CodeSessionNotFound, "", []string{`"sales"`, `"build"`}},
		{ToolInspect, `{"session_id":9,"language":"sh"}`, CodeSessionNotFound, "", []string{`"build"`}},
		{ToolInspect, `{"session_name":"sales","language":"bash"}`, CodeSessionMismatch, `{"drop":["language"],"set":{}}`, nil},
		{ToolInspect, `{"session_name":"sales","session_id":2}`, CodeSessionMismatch, `{"drop":["session_id"],"set":{}}`, nil},
		{ToolInspect, `{"language":"bash","venv_id":1,"session_id":1}`, CodeVenvWithShell, `{"drop":["venv_id"],"set":{}}`, nil},
		{ToolInspect, `{"language":"basch","session_id":1}`, CodeUnsupportedLanguage, `{"drop":[],"set":{"language":"bash"}}`, nil},
		{ToolClose, `{}`, CodeInvalidArgument, "", []string{"session_name", `"sales"`}},
		{ToolClose, `{"session_id":1}`, CodeInvalidArgument, "", []string{`"build"`, "drop session_id"}},
		{ToolClose, `{"session_name":"sales","session_id":2}`, CodeSessionMismatch, "", []string{"session_id", "session_name"}},
		{ToolReset, `{"session_name":"slaes"}`, CodeSessionNotFound, "", []string{`"sales"`}},
		{ToolReset, `{"session_name":"weather"}`, CodeSessionNotFound, "", nil},
		{ToolFork, `{"session_name":"sales"}`, CodeInvalidArgument, "", []string{"new_name"}},
		{ToolFork, `{"session_name":"sales","new_name":"build"}`, CodeInvalidArgument, `{"drop":[],"set":{"new_name":"build-2"}}`, nil},
		{ToolFork, `{"session_name":"sales","new_name":"a/b"}`, CodeInvalidArgument, `{"drop":[],"set":{"new_name":"a-b"}}`, nil},
	}
	for _, row := range rows {
		_, r := ResolveSelector([]byte(row.args), row.tool, world())
		if r == nil {
			t.Errorf("%s %s was not refused", row.tool, row.args)
			continue
		}
		fix := ""
		if r.Fix != nil {
			fix = encode(t, r.Fix)
		}
		if r.Code != row.code || fix != row.fix {
			t.Errorf("%s %s: %s %s, want %s %s\n%s\n%s", row.tool, row.args, r.Code, fix, row.code, row.fix, r.Message, r.Suggestion)
		}
		for _, want := range row.says {
			if !strings.Contains(r.Suggestion, want) {
				t.Errorf("%s %s does not say %s: %s", row.tool, row.args, want, r.Suggestion)
			}
		}
	}
}

func TestForkTakesTheNextID(t *testing.T) {
	s, r := ResolveSelector([]byte(`{"session_name":"sales","new_name":"copy"}`), ToolFork, world())
	if r != nil {
		t.Fatal(r)
	}
	want := SessionRef{Key: SessionKey{Actor: "a", Language: Python, ID: 3}, Name: "copy"}
	if *s.Copy != want {
		t.Errorf("copy %+v, want %+v", *s.Copy, want)
	}
}

func TestForkAtTheLimit(t *testing.T) {
	_, r := ResolveSelector([]byte(`{"session_name":"build","new_name":"copy"}`), ToolFork, full())
	if r == nil || r.Code != CodeSessionLimit || r.Fix != nil {
		t.Fatalf("got %+v, want a refusal, Code %v, no Fix", r, CodeSessionLimit)
	}
	// build was used longest ago, but it is what the copy is made of.
	if !strings.Contains(r.Suggestion, "the unnamed one (python 2)") {
		t.Errorf("names another session: %s", r.Suggestion)
	}
	one := View{Actor: "a", MaxSessions: 1, Sessions: []SessionItem{sessionItem(Bash, 0, 1, "build", 1)}}
	_, r = ResolveSelector([]byte(`{"session_name":"build","new_name":"copy"}`), ToolFork, one)
	if r == nil || r.Code != CodeSessionLimit || strings.Contains(r.Suggestion, "close_session") {
		t.Errorf("got %+v, want a refusal, Code %v, Suggestion without \"close_session\"", r, CodeSessionLimit)
	}
}

func TestUnknownTool(t *testing.T) {
	_, r := selectArgs(map[string]json.RawMessage{}, "close_sesion", world())
	if r == nil || HTTPStatus(r.Result(Partial{})) != 404 || !strings.Contains(r.Message, "did you mean close_session?") {
		t.Errorf("%+v", r)
	}
	if _, r := selectArgs(nil, ToolExecute, world()); r == nil {
		t.Error("execute_code is no selector")
	}
}

func TestSelectionCoordinates(t *testing.T) {
	s, r := ResolveSelector([]byte(`{"session_name":"model"}`), ToolInspect, world())
	if r != nil {
		t.Fatal(r)
	}
	want := Coordinates{Language: ptr(Python), SessionID: ptr(1), SessionName: ptr("model"), VenvID: ptr(1)}
	if at := s.Coordinates(); encode(t, at) != encode(t, want) || s.Detail != DetailSummary {
		t.Errorf("%s %s", encode(t, at), s.Detail)
	}
	list, r := ResolveSelector(nil, ToolList, world())
	if r != nil || list.Session != nil || list.Coordinates() != (Coordinates{}) {
		t.Errorf("%+v %v", list, r)
	}
}
