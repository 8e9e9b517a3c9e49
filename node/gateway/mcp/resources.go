package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/locusrun/locus/surfaces"
)

// callsURI starts the URIs of calls: locus://calls/CALL_ID, and below that /display/N for
// each displayed item.
const callsURI = "locus://calls/"

// displayURI is the URI of a displayed item.
func displayURI(callID string, i int) string {
	return callsURI + url.PathEscape(callID) + "/display/" + strconv.Itoa(i)
}

// addResources lets clients read calls, in particular those in the background.
func (h *handlers) addResources(server *sdk.Server) {
	server.AddResourceTemplate(&sdk.ResourceTemplate{
		Name: "call", Title: "A call", URITemplate: callsURI + "{call_id}", MIMEType: "application/json",
		Description: "The object of a call of execute_code as it stands now, by its call_id. Its status is running until the call, which may be one in the background, has its result.",
	}, h.readCall)
	server.AddResourceTemplate(&sdk.ResourceTemplate{
		Name: "display", Title: "What a call displayed", URITemplate: callsURI + "{call_id}/display/{n}",
		Description: "One image, table or other thing that the code of a call displayed, counted from 0.",
	}, h.readCall)
}

// readCall returns a call, or one of its displayed items.
func (h *handlers) readCall(ctx context.Context, req *sdk.ReadResourceRequest) (res *sdk.ReadResourceResult, err error) {
	ctx, node, end := h.serving(ctx, req.Extra)
	defer end()
	uri := req.Params.URI
	defer func() {
		if p := recover(); p != nil {
			res, err = nil, h.unreadable(ctx, node, uri, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
	}()
	escaped, rest, shows := strings.Cut(strings.TrimPrefix(uri, callsURI), "/display/")
	callID, err := url.PathUnescape(escaped)
	if err != nil {
		return nil, sdk.ResourceNotFoundError(uri)
	}
	r, err := node.Call(ctx, callID)
	if err != nil {
		return nil, h.unreadable(ctx, node, uri, err)
	}
	if !shows {
		text, err := json.Marshal(r)
		if err != nil {
			return nil, h.unreadable(ctx, node, uri, err)
		}
		return read(&sdk.ResourceContents{URI: uri, MIMEType: "application/json", Text: string(text)}), nil
	}
	n, err := strconv.Atoi(rest)
	if err != nil || n < 0 || n >= len(r.Display) {
		return nil, sdk.ResourceNotFoundError(uri)
	}
	contents, err := contentsOf(uri, r.Display[n])
	if err != nil {
		return nil, h.unreadable(ctx, node, uri, err)
	}
	return read(contents), nil
}

func read(contents *sdk.ResourceContents) *sdk.ReadResourceResult {
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{contents}}
}

// unreadable is the protocol's error for a call that cannot be read.
func (h *handlers) unreadable(ctx context.Context, node Node, uri string, err error) error {
	if ctx.Err() != nil {
		return errCancelled
	}
	var refusal *surfaces.Refusal
	if errors.As(err, &refusal) && refusal.HTTP == http.StatusNotFound {
		return sdk.ResourceNotFoundError(uri)
	}
	explained := node.Explain(err)
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: strings.TrimSpace(text(explained))}
}
