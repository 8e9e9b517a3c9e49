package mcp

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The protocol's headers.
const (
	headerSession = "Mcp-Session-Id"
	headerVersion = "Mcp-Protocol-Version"
)

// HTTP serves clients by streamable HTTP, those that keep a session of the protocol
// and those that do not. Whoever mounts it has found out who asks, and bounds and
// guards requests. Its methods may be called at the same time.
type HTTP struct {
	sessions *sessions
	kept     http.Handler // for clients with a session
	loose    http.Handler // for requests that stand by themselves
}

// Request is what a door knows of a request. Body is the whole body.
type Request struct {
	Actor string
	Node  Node
	Body  []byte
}

// NewHTTP makes the handlers. Close must be called.
func NewHTTP(cfg Config, bounds Bounds) *HTTP {
	server := newServer(cfg, func(extra *sdk.RequestExtra) caller {
		return extra.TokenInfo.Extra[callerKey].(caller)
	})
	options := sdk.StreamableHTTPOptions{
		Logger:                       cfg.log(),
		DisableLocalhostProtection:   true, // the door guards all of its routes
		MaxRequestBodyBytes:          -1,   // the body was read within the door's bounds
		PropagateRequestCancellation: true,
	}
	kept := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &options)
	options.Stateless = true
	loose := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &options)
	return &HTTP{sessions: newSessions(server, bounds), kept: known(kept), loose: known(loose)}
}

// Close ends the sessions that nobody uses, and the others when their last request
// has ended. No session begins any more.
func (h *HTTP) Close() { h.sessions.close() }

// Serve answers one request. It returns when the answer is complete or the request
// has ended; calls of a request that has ended are stopped. The error is a
// *surfaces.Refusal, and then nothing was written.
func (h *HTTP) Serve(w http.ResponseWriter, r *http.Request, req Request) error {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if r.Method == http.MethodPost {
		if !json.Valid(req.Body) {
			noJSON().answerTo(w, http.StatusBadRequest)
			return nil
		}
		w = &spoken{ResponseWriter: w, id: idIn(req.Body)}
	}
	id := r.Header.Get(headerSession)
	handler := h.loose
	switch {
	case r.Header.Get(headerVersion) >= fromVersion:
		// Versions without sessions. A header of a session means nothing in them.
	case id != "":
		handler = h.kept
		if r.Method == http.MethodDelete {
			h.sessions.stop(id, req.Actor) // the protocol's library would wait for running calls
		}
		leave, err := h.sessions.enter(id, req.Actor, cancel)
		if err != nil {
			return err
		}
		defer leave()
	case r.Method != http.MethodPost:
		handler = h.kept // which says what is missing
	case begins(req.Body):
		handler = h.kept
		beginning, err := h.sessions.begin(req.Actor)
		if err != nil {
			return err
		}
		defer beginning.end()
		w = &naming{ResponseWriter: w, beginning: beginning}
	}
	if r.Method == http.MethodPost && r.Header.Get(headerVersion) < fromVersion {
		if bad := unknownMethod(req.Body); bad != nil {
			bad.answerTo(w, http.StatusOK) // the request was taken; the protocol says what came of it
			return nil
		}
	}
	ctx = context.WithValue(ctx, requestKey{}, &auth.TokenInfo{
		UserID: req.Actor, Extra: map[string]any{callerKey: caller{req.Node, ctx}},
	})
	handler.ServeHTTP(w, r.WithContext(ctx))
	return nil
}

// naming learns the id of a session that begins before its client does, who may use
// it at once.
type naming struct {
	http.ResponseWriter
	beginning *beginning
}

// WriteHeader implements http.ResponseWriter.
func (n *naming) WriteHeader(status int) {
	n.beginning.named(n.Header().Get(headerSession))
	n.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (n *naming) Write(p []byte) (int, error) {
	n.beginning.named(n.Header().Get(headerSession))
	return n.ResponseWriter.Write(p)
}

// Unwrap is for an http.ResponseController.
func (n *naming) Unwrap() http.ResponseWriter { return n.ResponseWriter }

// begins says whether a body asks for a session.
func begins(body []byte) bool {
	var message struct {
		Method string `json:"method"`
	}
	return json.Unmarshal(body, &message) == nil && message.Method == "initialize"
}

// callerKey is where a request's caller is found, in the one thing that the
// protocol's library hands on from a request to the handlers of tools.
const callerKey = "caller"

type requestKey struct{}

// known tells the library who asks, which the door has found out before.
func known(h http.Handler) http.Handler {
	found := func(ctx context.Context, _ string, _ *http.Request) (*auth.TokenInfo, error) {
		return ctx.Value(requestKey{}).(*auth.TokenInfo), nil
	}
	return auth.RequireBearerToken(found, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(h)
}
