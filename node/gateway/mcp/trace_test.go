package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/locusrun/locus/surfaces"
	"github.com/locusrun/locus/surfaces/tracing"
)

// tracedNode tells which trace its calls are part of.
type tracedNode struct {
	*fakeNode
	in chan string
}

func (n tracedNode) Execute(ctx context.Context, _ json.RawMessage, _ func(Event) error) (surfaces.Result, error) {
	h := http.Header{}
	tracing.ToHeader(ctx, h)
	n.in <- h.Get("traceparent")
	return done("1"), nil
}

// A client's trace comes in the _meta of its request.
func TestACallIsPartOfItsClientsTrace(t *testing.T) {
	for _, version := range versions {
		node := tracedNode{&fakeNode{}, make(chan string, 1)}
		c, ctx := connect(t, node, version, nil)
		for _, meta := range []sdk.Meta{nil, {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, {"traceparent": 7}} {
			_, err := c.CallTool(ctx, &sdk.CallToolParams{Meta: meta, Name: "execute_code", Arguments: json.RawMessage(`{"code":"1","language":"python"}`)})
			if err != nil {
				t.Fatal(err)
			}
			want, _ := meta["traceparent"].(string)
			if got := <-node.in; got != want {
				t.Errorf("%s, %v: the call is part of %q", version, meta, got)
			}
		}
	}
}
