package mcpserver

import (
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestIdentifier(t *testing.T) {
	for tool, want := range map[string]string{
		"get_weather": "get_weather", "get-weather": "get_weather", "files.read/all": "files_read_all",
		"2fa": "_2fa", "import": "import_", "None": "None_", "größe": "gr__e", "": "", "--": "", "天気": "",
		strings.Repeat("x", maxName+1): "",
	} {
		if got := identifier(tool); got != want {
			t.Errorf("%q becomes %q, not %q", tool, got, want)
		}
	}
}

func TestToolsOfOneName(t *testing.T) {
	list := []*mcp.Tool{{Name: "a-b"}, {Name: "a.b"}, {Name: "a_b"}, {Name: "c-d"}, {Name: "c.d"}, {Name: "?"}}
	got := newTools(list, Config{Name: "box"}, slog.New(slog.DiscardHandler))
	if len(got.functions) != 2 || got.server["a_b"] != "a_b" || got.server["c_d"] != "c-d" {
		t.Errorf("%+v", got)
	}
	// A tool that is not allowed does not make room for another one of its name.
	got = newTools(list, Config{Name: "box", Allow: []string{"c.d"}}, slog.New(slog.DiscardHandler))
	if len(got.functions) != 0 || !got.forbidden["c_d"] {
		t.Errorf("%+v", got)
	}
}

func TestBoundsOfDescriptions(t *testing.T) {
	tool := &mcp.Tool{
		Name:        "long",
		Description: strings.Repeat("é", maxDescription),
		InputSchema: map[string]any{"description": strings.Repeat("x", maxSchema)},
	}
	f := describe("box.long", tool, slog.New(slog.DiscardHandler))
	if len(f.Description) != maxDescription || !utf8.ValidString(f.Description) || f.Schema != nil {
		t.Errorf("a description of %d bytes, a schema of %d", len(f.Description), len(f.Schema))
	}
	if got, want := truncate("aé", 2), "a"; got != want {
		t.Errorf("cut in the middle of a character: %q, want %q", got, want)
	}
}

func TestDiscreet(t *testing.T) {
	for text, want := range map[string]string{
		`Post "https://me:word@host.example:8443/s/secret?key=1": EOF`: `Post "https://host.example:8443": EOF`,
		`Get http://host?key=1 and http://other/x#y`:                   `Get http://host and http://other`,
		`exit status 1`: `exit status 1`,
	} {
		if got := redactURLs(text); got != want {
			t.Errorf("%s\nbecomes %s", text, got)
		}
	}
}
