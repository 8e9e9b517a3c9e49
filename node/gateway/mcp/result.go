package mcp

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/locusrun/locus/surfaces"
)

// resultOf converts a Result to the protocol: the object itself, a text for the model, and
// the displayed items.
func resultOf(r surfaces.Result, remarks string) *sdk.CallToolResult {
	content := []sdk.Content{&sdk.TextContent{Text: text(r) + remarks}}
	for i, d := range r.Display {
		if shown := display(r.CallID, i, d); shown != nil {
			content = append(content, shown)
		}
	}
	return &sdk.CallToolResult{
		Content: content, StructuredContent: r,
		IsError: r.Status == surfaces.StatusRefused || r.Status == surfaces.StatusFailed,
	}
}

// pictures are the image types that clients support.
var pictures = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// display converts a displayed item; nil for plain text, which repeats the result.
func display(callID string, i int, d surfaces.Display) sdk.Content {
	if d.MIME == "text/plain" {
		return nil
	}
	contents, err := contentsOf(displayURI(callID, i), d)
	switch {
	case err != nil:
		// The structured content has it as it is; it cannot be converted.
		return &sdk.TextContent{Text: fmt.Sprintf("display %d (%s) is no base64 and cannot be shown", i, d.MIME)}
	case slices.Contains(pictures, d.MIME):
		return &sdk.ImageContent{Data: contents.Blob, MIMEType: d.MIME}
	case strings.HasPrefix(d.MIME, "audio/"):
		return &sdk.AudioContent{Data: contents.Blob, MIMEType: d.MIME}
	}
	return &sdk.EmbeddedResource{Resource: contents}
}

// contentsOf converts a displayed item to a resource.
func contentsOf(uri string, d surfaces.Display) (*sdk.ResourceContents, error) {
	contents := &sdk.ResourceContents{URI: uri, MIMEType: d.MIME}
	if isText(d.MIME) {
		contents.Text = d.Data
		return contents, nil
	}
	data, err := base64.StdEncoding.DecodeString(d.Data)
	if err != nil {
		return nil, fmt.Errorf("decode what was displayed as %s: %w", d.MIME, err)
	}
	contents.Blob = data
	return contents, nil
}

// isText reports whether data of a type is sent as text.
func isText(mime string) bool {
	return strings.HasPrefix(mime, "text/") || strings.HasSuffix(mime, "+xml") || strings.HasSuffix(mime, "+json") ||
		mime == "application/json" || mime == "application/javascript"
}
