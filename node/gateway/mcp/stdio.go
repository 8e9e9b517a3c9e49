package mcp

import (
	"context"
	"errors"
	"io"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Serve serves one client with lines of JSON until in has ended and every request is
// answered, nobody reads the answers any more (Config.Unread), or ctx ends. Then it stops
// the running calls and waits for that. It writes nothing but the protocol to out. A line
// may be as long as the body of an HTTP request; an invalid one is answered with an error
// and has no other effect.
func Serve(ctx context.Context, cfg Config, node Node, in io.ReadCloser, out io.WriteCloser) error {
	server := newServer(cfg, func(*sdk.RequestExtra) caller { return caller{node, ctx} })
	err := server.Run(ctx, newLines(in, out, cfg))
	if errors.Is(err, io.EOF) || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}
