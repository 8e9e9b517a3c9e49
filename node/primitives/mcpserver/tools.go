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

// Bounds on what a server may say of itself.
const (
	maxTools       = 1000
	maxName        = 128
	maxDescription = 64 << 10
	maxSchema      = 256 << 10
)

// tools is what a server offers, by the names that code uses.
type tools struct {
	functions []primitives.Function
	server    map[string]string // the server's own name of each function that may be called
	forbidden map[string]bool   // functions that are not on the allow-list
}

// listTools asks a server for all its tools.
func listTools(ctx context.Context, session *mcp.ClientSession, cfg Config, log *slog.Logger) (*tools, error) {
	var list []*mcp.Tool
	for t, err := range session.Tools(ctx, nil) {
		var refusal *jsonrpc.Error
		if errors.As(err, &refusal) && refusal.Code == jsonrpc.CodeMethodNotFound {
			break // a server of other things than tools
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

// newTools gives every tool a name that is an identifier. A tool that has such a
// name keeps it, whatever comes before it; of others that would have the same, the
// first one gets it.
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
		// The protocol gives this hint a meaning only for what is not read-only.
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

// keywords are the words that Python takes for itself.
var keywords = strings.Fields(`False None True and as assert async await break class continue def del
	elif else except finally for from global if import in is lambda nonlocal not or pass raise return
	try while with yield`)

// identifier turns the name of a tool into a Python identifier: what cannot be in
// one becomes an underscore. It is empty where that is hopeless.
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

// truncate cuts a text to at most limit bytes, between characters.
func truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
