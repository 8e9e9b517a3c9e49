package mcp

import (
	"context"
	"errors"
	"io"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Serve speaks to one client by lines of JSON until in has ended and all that was asked is
// answered, or nobody reads the answers (Config.Unread), or ctx ends. Calls that run then
// are stopped, and Serve returns when they have been. Nothing but the
// protocol is written to out. A line may be as long as a request's body at the HTTP
// door; one that is no message is answered with an error, and nothing else ends.
func Serve(ctx context.Context, cfg Config, node Node, in io.ReadCloser, out io.WriteCloser) error {
	server := newServer(cfg, func(*sdk.RequestExtra) caller { return caller{node, ctx} })
	err := server.Run(ctx, newLines(in, out, cfg))
	if errors.Is(err, io.EOF) || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}
