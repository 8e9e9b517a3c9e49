package mcp

import (
	"cmp"
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

// HTTP serves clients over streamable HTTP, with and without MCP sessions. The caller must
// have authenticated, bounded and guarded the requests. Its methods are safe for concurrent
// use.
type HTTP struct {
	sessions  *sessions
	stateful  http.Handler // for clients with an MCP session
	stateless http.Handler // for requests without a session
}

// Request is what the gateway knows about a request. Body is the whole body.
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
		DisableLocalhostProtection:   true, // the gateway guards all of its routes
		MaxRequestBodyBytes:          -1,   // the gateway has bounded the body
		PropagateRequestCancellation: true,
	}
	stateful := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &options)
	options.Stateless = true
	stateless := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &options)
	return &HTTP{sessions: newSessions(server, bounds), stateful: known(stateful), stateless: known(stateless)}
}

// Close ends the idle sessions at once, and the others after their last request. No new
// session can begin.
func (h *HTTP) Close() { h.sessions.close() }

// Serve serves one request. It returns when the answer is complete or the request has
// ended; the latter stops its calls. If the error is not nil it is a *surfaces.Refusal, and
// nothing was written.
func (h *HTTP) Serve(w http.ResponseWriter, r *http.Request, req Request) error {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if r.Method == http.MethodPost {
		if !json.Valid(req.Body) {
			noJSON().answerTo(w, http.StatusBadRequest)
			return nil
		}
		if bad := alteredID(req.Body); bad != nil {
			bad.answerTo(w, http.StatusBadRequest)
			return nil
		}
		w = &jsonErrorWriter{ResponseWriter: w, id: idIn(req.Body)}
	}
	id := r.Header.Get(headerSession)
	handler := h.stateless
	switch {
	case r.Header.Get(headerVersion) >= fromVersion:
		// Protocol versions without sessions ignore the session header.
	case id != "":
		handler = h.stateful
		if r.Method == http.MethodDelete {
			h.sessions.stop(id, req.Actor) // otherwise the library would wait for running calls
		}
		leave, err := h.sessions.enter(id, req.Actor, cancel)
		if err != nil {
			return err
		}
		defer leave()
	case r.Method != http.MethodPost:
		handler = h.stateful // its error says what is missing
	case begins(req.Body):
		handler = h.stateful
		beginning, err := h.sessions.begin(req.Actor)
		if err != nil {
			return err
		}
		defer beginning.end()
		w = &sessionNamer{ResponseWriter: w, beginning: beginning}
	}
	if r.Method == http.MethodPost {
		// In the versions with sessions a JSON-RPC error has the HTTP status 200.
		status, bad := http.StatusBadRequest, wrongParams(req.Body)
		if r.Header.Get(headerVersion) < fromVersion {
			status, bad = http.StatusOK, cmp.Or(bad, unknownMethod(req.Body))
		}
		if bad != nil {
			bad.answerTo(w, status)
			return nil
		}
	}
	ctx = context.WithValue(ctx, requestKey{}, &auth.TokenInfo{
		UserID: req.Actor, Extra: map[string]any{callerKey: caller{req.Node, ctx}},
	})
	handler.ServeHTTP(w, r.WithContext(ctx))
	return nil
}

// sessionNamer registers a new session before the client gets its id, because the client may use
// it at once.
type sessionNamer struct {
	http.ResponseWriter
	beginning *beginning
}

// WriteHeader implements http.ResponseWriter.
func (n *sessionNamer) WriteHeader(status int) {
	n.beginning.named(n.Header().Get(headerSession))
	n.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (n *sessionNamer) Write(p []byte) (int, error) {
	n.beginning.named(n.Header().Get(headerSession))
	return n.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (n *sessionNamer) Unwrap() http.ResponseWriter { return n.ResponseWriter }

// begins reports whether a body starts a session.
func begins(body []byte) bool {
	var message struct {
		Method string `json:"method"`
	}
	return json.Unmarshal(body, &message) == nil && message.Method == "initialize"
}

// callerKey is the key of a request's caller in the TokenInfo, the only thing that the
// library passes from a request to the tool handlers.
const callerKey = "caller"

type requestKey struct{}

// known tells the library who the caller is; the gateway has authenticated it.
func known(h http.Handler) http.Handler {
	found := func(ctx context.Context, _ string, _ *http.Request) (*auth.TokenInfo, error) {
		return ctx.Value(requestKey{}).(*auth.TokenInfo), nil
	}
	return auth.RequireBearerToken(found, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(h)
}
