package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// malformed is a text that should have been a message. Its error says why it is none.
type malformed struct {
	code   int
	id     json.RawMessage // nil when there is none to be found
	answer bool            // that it is an answer, which is not answered: that might go on forever
	error
}

// invalid is JSON that is no message.
func invalid(id json.RawMessage, why string) *malformed {
	return &malformed{code: jsonrpc.CodeInvalidRequest, id: id, error: errors.New(why)}
}

// noJSON is what to say of a text that is no JSON.
func noJSON() *malformed {
	return &malformed{code: jsonrpc.CodeParseError, error: errors.New("this is no JSON: a message is one object of JSON")}
}

// answerTo writes the answer to a request by HTTP.
func (m *malformed) answerTo(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(m.reply()) // whoever has gone needs no answer
}

// reply is the answer of JSON-RPC to it, without a line's end.
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
		panic(fmt.Sprintf("mcp: an error does not encode: %v", err)) // its id was decoded before
	}
	return text
}

// messages gives what a line brings: one message, or all of a list, or why there are
// none. The members of a list are taken as if each had come by itself.
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
		}
		all[i] = arrival{msg, err}
	}
	return all
}

// noMessage says what is wrong with JSON that is no message.
func noMessage(raw []byte) *malformed {
	bad := invalid(idIn(raw), `this is no message of JSON-RPC: it needs "jsonrpc": "2.0" and a method, and an id when it wants an answer`)
	var parts struct{ Method, Result, Error json.RawMessage }
	if json.Unmarshal(raw, &parts) == nil {
		bad.answer = parts.Method == nil && (parts.Result != nil || parts.Error != nil)
	}
	return bad
}

// idIn finds the id of a message that may be none; nil when it has none that counts.
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

// spoken makes what the protocol's library says about a request as plain text an
// answer of the protocol.
type spoken struct {
	http.ResponseWriter
	id    json.RawMessage // of the request, or nil
	plain bool
}

// WriteHeader implements http.ResponseWriter.
func (s *spoken) WriteHeader(status int) {
	if h := s.Header(); status >= http.StatusBadRequest && strings.HasPrefix(h.Get("Content-Type"), "text/plain") {
		s.plain = true
		h.Set("Content-Type", "application/json")
		h.Del("Content-Length")
	}
	s.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter. The library writes such a text at once.
func (s *spoken) Write(p []byte) (int, error) {
	if !s.plain {
		return s.ResponseWriter.Write(p)
	}
	reply := invalid(s.id, string(bytes.TrimSpace(p))).reply()
	if _, err := s.ResponseWriter.Write(append(reply, '\n')); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Unwrap is for an http.ResponseController.
func (s *spoken) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// methods are the requests that the protocol's library answers, in the versions that have
// sessions.
var methods = []string{
	"initialize", "ping", "tools/list", "tools/call",
	"resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe",
	"prompts/list", "prompts/get", "completion/complete", "logging/setLevel", "subscriptions/listen",
}

// unknownMethod finds a request for a method that there is none of; nil for anything else.
// The library says of one by HTTP, in the versions that have sessions, that the request is
// no message, and by pipes what is the matter.
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
