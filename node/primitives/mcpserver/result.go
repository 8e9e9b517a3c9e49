package mcpserver

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/locusrun/locus/node/primitives"
	"github.com/locusrun/locus/surfaces"
)

// maxReason bounds the text of a failure, in bytes.
const maxReason = 64 << 10

// valueOf converts the result of a tool to what the code gets:
//
//   - Structured content is the result as it is.
//   - Otherwise one content item is the result, several are a list, and none is null. Texts
//     are strings, even if they look like JSON.
//   - Images and audio are displayed, with a medium in their place in the result. Links and
//     resources are objects as in the protocol.
//
// A tool that reports a failure gives a *primitives.Error.
func valueOf(res *mcp.CallToolResult) (primitives.Value, error) {
	if len(res.InputRequests) > 0 {
		return primitives.Value{}, &primitives.Error{Type: primitives.ErrorFailed,
			Message: "the tool asks a person for input in the middle of its work, which is not supported here"}
	}
	if res.IsError {
		return primitives.Value{}, &primitives.Error{Type: primitives.ErrorFailed, Message: reasonOf(res)}
	}
	var v primitives.Value
	items := []any{} // not nil, which would encode as null
	for _, c := range res.Content {
		item, media := itemOf(c)
		if media != nil {
			v.Display = append(v.Display, *media)
		}
		items = append(items, item)
	}
	var err error
	switch {
	case res.StructuredContent != nil:
		v.Result, err = structured(res)
	case len(items) == 0:
	case len(items) == 1:
		v.Result, err = json.Marshal(items[0])
	default:
		v.Result, err = json.Marshal(items)
	}
	return v, err
}

// medium stands for an image or audio in a result. The kernel does not print its data.
type medium struct {
	Type  string `json:"type"` // image or audio
	MIME  string `json:"mimeType"`
	Bytes int    `json:"bytes"`
	Data  string `json:"data"` // base64
}

func itemOf(c mcp.Content) (item any, media *surfaces.Display) {
	switch c := c.(type) {
	case *mcp.TextContent:
		return c.Text, nil
	case *mcp.ImageContent:
		return displayed("image", c.MIMEType, c.Data)
	case *mcp.AudioContent:
		return displayed("audio", c.MIMEType, c.Data)
	}
	return c, nil
}

func displayed(kind, mime string, data []byte) (any, *surfaces.Display) {
	if mime == "" {
		mime = "application/octet-stream"
	}
	text := base64.StdEncoding.EncodeToString(data)
	return medium{Type: kind, MIME: mime, Bytes: len(data), Data: text}, &surfaces.Display{MIME: mime, Data: text}
}

// structured returns the structured content without loss. The library has decoded its
// numbers as float64, which changes large integers. Servers usually repeat the content as
// text, as it is or without an enclosing {"result": ...}. If that text has the same value,
// it is returned instead.
func structured(res *mcp.CallToolResult) (json.RawMessage, error) {
	if len(res.Content) == 1 {
		if text, ok := res.Content[0].(*mcp.TextContent); ok {
			for _, candidate := range []string{text.Text, `{"result":` + text.Text + `}`} {
				if same(candidate, res.StructuredContent) {
					var b bytes.Buffer
					err := json.Compact(&b, []byte(candidate))
					return b.Bytes(), err
				}
			}
		}
	}
	return json.Marshal(res.StructuredContent)
}

func same(text string, value any) bool {
	var other any
	return json.Unmarshal([]byte(text), &other) == nil && reflect.DeepEqual(other, value)
}

// reasonOf is the error text of a tool that failed.
func reasonOf(res *mcp.CallToolResult) string {
	var texts []string
	for _, c := range res.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			texts = append(texts, text.Text)
		}
	}
	reason := strings.TrimSpace(strings.Join(texts, "\n"))
	if reason == "" {
		reason = "the tool failed and gave no reason"
		if b, err := json.Marshal(res.StructuredContent); err == nil && res.StructuredContent != nil {
			reason = string(b)
		}
	}
	return truncate(reason, maxReason)
}
