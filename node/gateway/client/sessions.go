package client

import (
	"context"
	"net/http"

	"github.com/locusrun/locus/node/gateway"
)

// Selector selects a session by name, or by language and id. Nil fields are not sent.
type Selector struct {
	SessionName *string `json:"session_name,omitempty"`
	SessionID   *int    `json:"session_id,omitempty"`
	Language    *string `json:"language,omitempty"`
	VenvID      *int    `json:"venv_id,omitempty"`
}

// ListSessions lists the actor's sessions.
func (c *Client) ListSessions(ctx context.Context) (gateway.SessionList, error) {
	return tool[gateway.SessionList](ctx, c, "list_sessions", struct{}{})
}

// InspectState describes the state of a session. detail is summary, names or full; empty is
// summary.
func (c *Client) InspectState(ctx context.Context, s Selector, detail string) (gateway.Inspection, error) {
	return tool[gateway.Inspection](ctx, c, "inspect_state", struct {
		Selector
		Detail string `json:"detail,omitempty"`
	}{s, detail})
}

// CloseSession ends a session. Closing one that does not exist is not an error.
func (c *Client) CloseSession(ctx context.Context, s Selector) (gateway.Closed, error) {
	return tool[gateway.Closed](ctx, c, "close_session", s)
}

// ResetSession clears a session's state and keeps its name.
func (c *Client) ResetSession(ctx context.Context, s Selector) (gateway.SessionInfo, error) {
	return tool[gateway.SessionInfo](ctx, c, "reset_session", s)
}

// ForkSession makes a new session that starts as a copy of another.
func (c *Client) ForkSession(ctx context.Context, s Selector, newName string) (gateway.SessionInfo, error) {
	return tool[gateway.SessionInfo](ctx, c, "fork_session", struct {
		Selector
		NewName string `json:"new_name"`
	}{s, newName})
}

func tool[T any](ctx context.Context, c *Client, name string, args any) (T, error) {
	var out T
	err := c.ask(ctx, http.MethodPost, "/v1/tools/"+name, args, &out)
	return out, err
}
