package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// malformed is an input that is not a valid message; its error says why.
type malformed struct {
	code   int
	id     json.RawMessage // nil if it has no usable id
	answer bool            // it is a malformed answer, which must not be answered: two peers could go on for ever
	error
}

// invalid is JSON that is not a message.
func invalid(id json.RawMessage, why string) *malformed {
	return &malformed{code: jsonrpc.CodeInvalidRequest, id: id, error: errors.New(why)}
}

// noJSON is the error for input that is not JSON.
func noJSON() *malformed {
	return &malformed{code: jsonrpc.CodeParseError, error: errors.New("this is no JSON: a message is one object of JSON")}
}

// answerTo writes the answer over HTTP.
func (m *malformed) answerTo(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(m.reply()) // the client may have gone
}

// reply is the JSON-RPC error, without a newline.
func (m *malformed) reply() []byte {
	id := m.id
	if id == nil {
		id = json.RawMessage("null")
	}
	text, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": id,
		"error": map[string]any{"code": m.code, "message": m.Error()},
	})
	if err != nil {
		panic(fmt.Sprintf("mcp: an error does not encode: %v", err)) // cannot happen: its id was decoded before
	}
	return text
}

// messages returns the messages of a line: one, or those of a batch, or an error. The
// members of a batch are handled as separate messages.
func messages(line []byte) []arrival {
	list := []json.RawMessage{line}
	switch {
	case !json.Valid(line):
		return []arrival{{err: noJSON()}}
	case line[0] == '[':
		if err := json.Unmarshal(line, &list); err != nil || len(list) == 0 {
			return []arrival{{err: invalid(nil, "a list of messages has to have some")}}
		}
	}
	all := make([]arrival, len(list))
	for i, raw := range list {
		msg, err := jsonrpc.DecodeMessage(raw)
		if err != nil {
			err = noMessage(raw)
		} else if bad := alteredID(raw); bad != nil {
			err = bad
		} else if bad := wrongParams(raw); bad != nil {
			err = bad
		}
		all[i] = arrival{msg, err}
	}
	return all
}

// noMessage is the error for JSON that is not a message.
func noMessage(raw []byte) *malformed {
	bad := invalid(idIn(raw), `this is no message of JSON-RPC: it needs "jsonrpc": "2.0" and a method, and an id when it wants an answer`)
	var parts struct{ Method, Result, Error json.RawMessage }
	if json.Unmarshal(raw, &parts) == nil {
		bad.answer = parts.Method == nil && (parts.Result != nil || parts.Error != nil)
	}
	return bad
}

// idIn returns the id of a possibly invalid message; nil if it has no valid one.
func idIn(raw []byte) json.RawMessage {
	var message struct{ ID json.RawMessage }
	var id any
	if json.Unmarshal(raw, &message) != nil || json.Unmarshal(message.ID, &id) != nil {
		return nil
	}
	switch id.(type) {
	case string, float64:
		return message.ID
	}
	return nil
}

// alteredID returns the error for a request whose id the library would answer as another
// one, or not at all; nil for anything else. It takes ids for floating-point numbers, cuts
// them to whole ones, and takes null for no id.
func alteredID(raw []byte) *malformed {
	var message struct {
		ID     json.RawMessage
		Method *string
	}
	if json.Unmarshal(raw, &message) != nil || message.ID == nil || message.Method == nil || message.ID[0] == '"' {
		return nil
	}
	var n *float64
	if json.Unmarshal(message.ID, &n) == nil && n != nil && *n == math.Trunc(*n) && math.Abs(*n) < 1<<53 {
		return nil
	}
	return invalid(idIn(raw), "an id is a string or a whole number between -2^53 and 2^53")
}

// wrongParams returns the error for a request with a parameter of another type than the
// protocol's; nil for anything else. The library's error would name Go types. The arguments of
// a tool are not looked at: they have errors of their own.
func wrongParams(raw []byte) *malformed {
	var message struct {
		ID     json.RawMessage
		Method *string
		Params *struct {
			Meta            map[string]json.RawMessage `json:"_meta"`
			Name            string                     `json:"name"`
			URI             string                     `json:"uri"`
			Cursor          string                     `json:"cursor"`
			ProtocolVersion string                     `json:"protocolVersion"`
			Capabilities    map[string]json.RawMessage `json:"capabilities"`
			ClientInfo      *struct {
				Name    string `json:"name"`
				Title   string `json:"title"`
				Version string `json:"version"`
			} `json:"clientInfo"`
		} `json:"params"`
	}
	var wrong *json.UnmarshalTypeError
	if !errors.As(json.Unmarshal(raw, &message), &wrong) || message.ID == nil || message.Method == nil || !strings.HasPrefix(wrong.Field, "params") {
		return nil
	}
	wanted := "an object"
	if wrong.Type.Kind() == reflect.String {
		wanted = "a string"
	}
	return &malformed{
		code: jsonrpc.CodeInvalidParams, id: idIn(raw),
		error: fmt.Errorf("%s of %.80s must be %s, not of the type %s", wrong.Field, *message.Method, wanted, wrong.Value),
	}
}

// jsonErrorWriter converts plain-text errors of the library to JSON-RPC errors.
type jsonErrorWriter struct {
	http.ResponseWriter
	id    json.RawMessage // of the request; nil if it has none
	plain bool
}

// WriteHeader implements http.ResponseWriter.
func (s *jsonErrorWriter) WriteHeader(status int) {
	if h := s.Header(); status >= http.StatusBadRequest && strings.HasPrefix(h.Get("Content-Type"), "text/plain") {
		s.plain = true
		h.Set("Content-Type", "application/json")
		h.Del("Content-Length")
	}
	s.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter. The library writes an error text in one piece.
func (s *jsonErrorWriter) Write(p []byte) (int, error) {
	if !s.plain {
		return s.ResponseWriter.Write(p)
	}
	reply := invalid(s.id, string(bytes.TrimSpace(p))).reply()
	if _, err := s.ResponseWriter.Write(append(reply, '\n')); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Unwrap is for http.ResponseController.
func (s *jsonErrorWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// methods are the methods that the library serves in the protocol versions with sessions.
var methods = []string{
	"initialize", "ping", "tools/list", "tools/call",
	"resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe",
	"prompts/list", "prompts/get", "completion/complete", "logging/setLevel", "subscriptions/listen",
}

// unknownMethod returns the error for a request with an unknown method; nil for anything
// else. In the versions with sessions the library answers such a request over HTTP with a
// misleading error; over pipes its error is right.
func unknownMethod(body []byte) *malformed {
	msg, err := jsonrpc.DecodeMessage(body)
	if err != nil {
		return nil
	}
	r, ok := msg.(*jsonrpc.Request)
	if !ok || !r.IsCall() || slices.Contains(methods, r.Method) {
		return nil
	}
	return &malformed{code: jsonrpc.CodeMethodNotFound, id: idIn(body), error: fmt.Errorf("there is no method %.80q", r.Method)}
}
