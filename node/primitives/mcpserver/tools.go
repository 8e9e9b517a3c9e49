package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/locusrun/locus/node/primitives"
)

// Bounds on what a server declares; maxTools in number, the others in bytes.
const (
	maxTools       = 1000
	maxName        = 128
	maxDescription = 64 << 10
	maxSchema      = 256 << 10
)

// tools is what a server offers, under the names that code uses.
type tools struct {
	functions []primitives.Function
	server    map[string]string // by function: the server's own name of the tool
	forbidden map[string]bool   // functions that Allow leaves out
}

// listTools lists the tools of a server.
func listTools(ctx context.Context, session *mcp.ClientSession, cfg Config, log *slog.Logger) (*tools, error) {
	var list []*mcp.Tool
	for t, err := range session.Tools(ctx, nil) {
		var refusal *jsonrpc.Error
		if errors.As(err, &refusal) && refusal.Code == jsonrpc.CodeMethodNotFound {
			break // a server without tools
		}
		if err != nil {
			return nil, err
		}
		if len(list) == maxTools {
			log.Warn("an MCP server has more tools than can be used", "used", maxTools)
			break
		}
		list = append(list, t)
	}
	return newTools(list, cfg, log), nil
}

// newTools gives every tool a name that is a Python identifier. Tools whose own name is one
// keep it. If two others map to the same identifier, the first gets it and the second
// cannot be called.
func newTools(list []*mcp.Tool, cfg Config, log *slog.Logger) *tools {
	t := &tools{server: map[string]string{}, forbidden: map[string]bool{}}
	natural := func(tool *mcp.Tool) int {
		if identifier(tool.Name) == tool.Name {
			return 0
		}
		return 1
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *mcp.Tool) int { return natural(a) - natural(b) })
	for _, tool := range list {
		name := identifier(tool.Name)
		if name == "" || t.server[name] != "" || t.forbidden[name] {
			log.Warn("a tool of an MCP server cannot be reached: its name is unusable or taken", "tool", truncate(tool.Name, maxName), "function", name)
			continue
		}
		if len(cfg.Allow) > 0 && !slices.Contains(cfg.Allow, name) && !slices.Contains(cfg.Allow, tool.Name) {
			t.forbidden[name] = true
			continue
		}
		t.server[name] = tool.Name
		t.functions = append(t.functions, describe(cfg.Name+"."+name, tool, log))
	}
	slices.SortFunc(t.functions, func(a, b primitives.Function) int { return strings.Compare(a.Name, b.Name) })
	return t
}

func describe(name string, tool *mcp.Tool, log *slog.Logger) primitives.Function {
	f := primitives.Function{Name: name, Description: truncate(tool.Description, maxDescription), Destructive: true}
	if a := tool.Annotations; a != nil {
		f.ReadOnly = a.ReadOnlyHint
		// The protocol defines this hint only for tools that are not read-only.
		f.Destructive = !a.ReadOnlyHint && (a.DestructiveHint == nil || *a.DestructiveHint)
	}
	if tool.InputSchema == nil {
		return f
	}
	schema, err := json.Marshal(tool.InputSchema)
	if err != nil || len(schema) > maxSchema {
		log.Warn("the schema of a tool cannot be used", "tool", name, "bytes", len(schema), "error", err)
		return f
	}
	f.Schema = schema
	return f
}

// keywords are Python's reserved words.
var keywords = strings.Fields(`False None True and as assert async await break class continue def del
	elif else except finally for from global if import in is lambda nonlocal not or pass raise return
	try while with yield`)

// identifier maps the name of a tool to a Python identifier, with underscores for other
// characters. It is empty if nothing usable is left.
func identifier(tool string) string {
	if len(tool) > maxName {
		return ""
	}
	name := strings.Map(func(r rune) rune {
		if r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, tool)
	switch {
	case strings.Trim(name, "_") == "":
		return ""
	case '0' <= name[0] && name[0] <= '9':
		return "_" + name
	case slices.Contains(keywords, name):
		return name + "_"
	}
	return name
}

// truncate cuts a text to at most limit bytes, without splitting a character.
func truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
