package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"

	"github.com/locusrun/locus/node/gateway/mcp"
	"github.com/locusrun/locus/surfaces"
)

// mcpPath is the path of the MCP endpoint.
const mcpPath = "/mcp"

func mcpRoutes() []route {
	return []route{
		{method: "POST", pattern: mcpPath, pool: poolOwn, handle: (*exchange).mcp, body: typeOf[map[string]any](), kinds: []string{kindJSON, kindStream},
			refusals: []int{404, 413, 415}, doc: "The tools over the Model Context Protocol (streamable HTTP)."},
		{method: "GET", pattern: mcpPath, pool: poolCalls, handle: (*exchange).mcp, kinds: []string{kindStream}, refusals: []int{404},
			doc: "The server's messages in a session of the Model Context Protocol."},
		{method: "DELETE", pattern: mcpPath, pool: poolControls, handle: (*exchange).mcp, kinds: []string{kindText}, refusals: []int{404},
			doc: "End a session of the Model Context Protocol."},
	}
}

// ToolOutputs returns the JSON Schemas of the tools' answers over MCP: the tool's own
// object, or the Result of a refusal.
func ToolOutputs() map[string]json.RawMessage {
	outputs := make(map[string]json.RawMessage)
	for _, r := range (&Gateway{}).table() {
		if r.tool == "" {
			continue
		}
		s := schemas{}
		output := object{"type": "object", "anyOf": []object{s.named(r.answers), s.named(typeOf[surfaces.Result]())}}
		if r.answers == typeOf[surfaces.Result]() {
			output = maps.Clone(s[r.answers.Name()].(object))
		}
		output["$defs"] = s
		text, err := json.Marshal(output)
		if err != nil {
			panic(fmt.Sprintf("gateway: the schema of %s does not encode: %v", r.tool, err)) // it is made of constants
		}
		outputs[r.tool] = bytes.ReplaceAll(text, []byte(schemaPath), []byte("#/$defs/"))
	}
	return outputs
}

// mcp serves an MCP request.
func (x *exchange) mcp() error {
	body, free, err := x.read()
	if err != nil {
		return err
	}
	defer free()
	if x.r.Method == http.MethodPost {
		pool := x.g.controls
		if callsTool(body) {
			pool = x.g.calls
		}
		leave, err := x.takeSlot(pool)
		if err != nil {
			return err
		}
		defer leave()
	}

	ctx, cancel := context.WithCancel(x.ctx)
	defer cancel()
	if x.r.Method == http.MethodGet {
		defer context.AfterFunc(x.g.closing, cancel)()
	}
	r := x.r.WithContext(ctx)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	out := &mcpAnswer{answer: x.out, every: x.g.cfg.Heartbeat}
	defer out.stop()
	caller := &mcpCaller{x: x, out: out}
	err = x.g.mcp.Serve(out, r, mcp.Request{Actor: x.caller.Actor, Node: caller, Body: body})
	x.callID = caller.call()
	if err == nil && x.ctx.Err() != nil {
		return errGone
	}
	return err
}

// callsTool reports whether a message may run a tool, which can take long.
func callsTool(body []byte) bool {
	var message struct {
		Method string `json:"method"`
	}
	if json.Unmarshal(body, &message) != nil {
		return true // a batch, or a body that will be refused
	}
	return message.Method == "tools/call" || message.Method == "subscriptions/listen"
}
