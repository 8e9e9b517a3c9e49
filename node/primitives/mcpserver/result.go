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

// maxReason bounds the text of a failure.
const maxReason = 64 << 10

// valueOf turns what a tool gave into what code sees.
//
//   - Structured content is the result as it is.
//   - Otherwise a single content is the result, several are a list, and none is null.
//     Texts are strings, also those that look like JSON.
//   - Images and sounds are displayed, and the result has a medium in their place. Links and resources are objects as in the protocol.
//
// A tool that says that it failed gives an *primitives.Error.
func valueOf(res *mcp.CallToolResult) (primitives.Value, error) {
	if len(res.InputRequests) > 0 {
		return primitives.Value{}, &primitives.Error{Type: primitives.ErrorFailed,
			Message: "the tool asks a person for input in the middle of its work, which is not supported here"}
	}
	if res.IsError {
		return primitives.Value{}, &primitives.Error{Type: primitives.ErrorFailed, Message: reasonOf(res)}
	}
	var v primitives.Value
	items := []any{} // no nil: an empty list is not null
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

// medium is an image or a sound in a result. What runs the code keeps the data from
// being printed with the rest.
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

// structured gives the structured content exactly. The library has read its
// numbers as floating point, which spoils large integers. Servers repeat the
// content as a text, alone or without the object {"result": ...} around it; where
// that is the same value, it is the better copy.
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

// reasonOf is what a tool that failed says.
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
