package mcp

import (
	"encoding/json"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/locusrun/locus/surfaces"
)

// instructions explain the tools to a model. Some clients truncate them, so they are short.
const instructions = `Locus runs code. One tool, execute_code, takes independent coordinates:

- language: python or a shell. Python is like a prompt: top-level await works, and the value of a last expression is the result, so print is not needed.
- state_mode: stateless (default) is a fresh process that forgets everything. stateful keeps variables, imports, functions, open files and the working directory in a session. read_only runs on a copy of a session: look at anything, nothing can change.
- session_name: which session, for stateful and read_only. A new name makes a session. Work on one topic in one session, and build on what is there instead of loading it again.
- atomic: a stateful call that fails leaves the session as it was. Good for risky steps.
- timeout_s: a hard deadline, 120 by default.

Typical: load data once with stateful and a session_name, then ask questions about it with read_only.

A refusal ran nothing. Its suggestion names exactly which arguments to change or drop: do that and call again. An exception in the code keeps what ran before it. state_lost means that the session is new and empty: load again what you need. A shell's exit code other than 0 is no error.

list_sessions and inspect_state show what there is without running code.`

// hints is what clients show about a tool, and use to decide whether to ask a person
// first.
type hints struct {
	title                                string
	readOnly, destroys, repeats, outside bool
}

var toolHints = map[string]hints{
	surfaces.ToolExecute: {title: "Run code", destroys: true, outside: true},
	surfaces.ToolList:    {title: "List sessions", readOnly: true, repeats: true},
	surfaces.ToolInspect: {title: "Look into a session", readOnly: true, repeats: true},
	surfaces.ToolClose:   {title: "Close a session", destroys: true, repeats: true},
	surfaces.ToolReset:   {title: "Empty a session", destroys: true, repeats: true},
	surfaces.ToolFork:    {title: "Copy a session"},
}

// describe returns the protocol's description of a tool.
func describe(t surfaces.Tool, input surfaces.Schema, output json.RawMessage) *sdk.Tool {
	m, ok := toolHints[t.Name]
	if !ok {
		panic(fmt.Sprintf("mcp: nothing says how %s behaves", t.Name))
	}
	return &sdk.Tool{
		Name: t.Name, Title: m.title, Description: t.Doc, InputSchema: input, OutputSchema: output,
		Annotations: &sdk.ToolAnnotations{
			Title: m.title, ReadOnlyHint: m.readOnly, DestructiveHint: &m.destroys, IdempotentHint: m.repeats, OpenWorldHint: &m.outside,
		},
	}
}
