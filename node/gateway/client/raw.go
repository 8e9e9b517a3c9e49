package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// StreamRaw is Stream with arguments that are JSON already. The node checks them.
func (c *Client) StreamRaw(ctx context.Context, arguments json.RawMessage, emit func(gateway.StreamEvent) error) (surfaces.Result, error) {
	var known struct {
		Key string `json:"idempotency_key"`
	}
	f := &follower{c: c, emit: emit}
	f.again = json.Unmarshal(arguments, &known) == nil && known.Key != ""
	return f.run(ctx, func() (*http.Response, error) {
		return c.send(ctx, http.MethodPost, "/v1/tools/execute_code", nil, arguments, streamType)
	})
}

// Tool runs any tool but execute_code with arguments that are JSON already, and returns its
// answer.
func (c *Client) Tool(ctx context.Context, name string, arguments json.RawMessage) (json.RawMessage, error) {
	return tool[json.RawMessage](ctx, c, url.PathEscape(name), arguments)
}

// AnswerPrimitiveRaw is AnswerPrimitive with an outcome that is JSON already.
func (c *Client) AnswerPrimitiveRaw(ctx context.Context, callID, seq string, outcome json.RawMessage) error {
	return c.ask(ctx, http.MethodPost, executionPath(callID)+"/primitives/"+url.PathEscape(seq), outcome, nil)
}
