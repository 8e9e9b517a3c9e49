package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/locusrun/locus/node/gateway"
)

// Status returns the state of the node and its mesh.
func (c *Client) Status(ctx context.Context) (gateway.StatusInfo, error) {
	var status gateway.StatusInfo
	err := c.ask(ctx, http.MethodGet, "/v1/status", nil, &status)
	return status, err
}

// Nodes lists the nodes of the mesh.
func (c *Client) Nodes(ctx context.Context) (gateway.NodeList, error) {
	var nodes gateway.NodeList
	err := c.ask(ctx, http.MethodGet, "/v1/nodes", nil, &nodes)
	return nodes, err
}

// Actors lists the actors of the mesh, without their tokens.
func (c *Client) Actors(ctx context.Context) (gateway.ActorList, error) {
	var actors gateway.ActorList
	err := c.ask(ctx, http.MethodGet, "/v1/actors", nil, &actors)
	return actors, err
}

// CreateActor creates an actor. Only this answer has its token.
func (c *Client) CreateActor(ctx context.Context, want gateway.NewActor) (gateway.ActorInfo, error) {
	var actor gateway.ActorInfo
	err := c.ask(ctx, http.MethodPost, "/v1/actors", want, &actor)
	return actor, err
}

// EndActor revokes an actor's tokens, stops its calls and closes its sessions.
func (c *Client) EndActor(ctx context.Context, name string) (gateway.ActorInfo, error) {
	var actor gateway.ActorInfo
	err := c.ask(ctx, http.MethodDelete, "/v1/actors/"+url.PathEscape(name), nil, &actor)
	return actor, err
}

// DrainNode sets whether a node takes new sessions; existing ones stay.
func (c *Client) DrainNode(ctx context.Context, id string, draining bool) (gateway.NodeInfo, error) {
	var node gateway.NodeInfo
	err := c.ask(ctx, http.MethodPost, nodePath(id)+"/drain", gateway.Draining{Draining: draining}, &node)
	return node, err
}

// LabelNode replaces the labels of a node. Without labels the node's own configuration
// holds.
func (c *Client) LabelNode(ctx context.Context, id string, labels map[string]string) (gateway.NodeInfo, error) {
	var node gateway.NodeInfo
	err := c.ask(ctx, http.MethodPost, nodePath(id)+"/labels", gateway.Labels{Labels: labels}, &node)
	return node, err
}

// RemoveNode removes an expired node from the mesh for good.
func (c *Client) RemoveNode(ctx context.Context, id string) (gateway.NodeInfo, error) {
	var node gateway.NodeInfo
	err := c.ask(ctx, http.MethodDelete, nodePath(id), nil, &node)
	return node, err
}

func nodePath(id string) string { return "/v1/nodes/" + url.PathEscape(id) }

// Tokens lists the join tokens, without their secrets.
func (c *Client) Tokens(ctx context.Context) (gateway.TokenList, error) {
	var tokens gateway.TokenList
	err := c.ask(ctx, http.MethodGet, "/v1/tokens", nil, &tokens)
	return tokens, err
}

// CreateToken makes a join token. Only this answer has its text.
func (c *Client) CreateToken(ctx context.Context, want gateway.NewToken) (gateway.TokenInfo, error) {
	var token gateway.TokenInfo
	err := c.ask(ctx, http.MethodPost, "/v1/tokens", want, &token)
	return token, err
}

// RevokeToken revokes a join token. Members that joined with it stay.
func (c *Client) RevokeToken(ctx context.Context, id string) (gateway.TokenInfo, error) {
	var token gateway.TokenInfo
	err := c.ask(ctx, http.MethodDelete, "/v1/tokens/"+url.PathEscape(id), nil, &token)
	return token, err
}

// Machines lists the caller's linked machines; for operators those of an actor, or all.
func (c *Client) Machines(ctx context.Context, actor string) (gateway.MachineList, error) {
	var machines gateway.MachineList
	path := "/v1/machines"
	if actor != "" {
		path += "?" + url.Values{"actor": {actor}}.Encode()
	}
	err := c.ask(ctx, http.MethodGet, path, nil, &machines)
	return machines, err
}

// UnlinkMachine removes a machine from the mesh.
func (c *Client) UnlinkMachine(ctx context.Context, name string) (gateway.MachineInfo, error) {
	var machine gateway.MachineInfo
	err := c.ask(ctx, http.MethodDelete, "/v1/machines/"+url.PathEscape(name), nil, &machine)
	return machine, err
}

// Authority returns the state of the mesh's certificate authority.
func (c *Client) Authority(ctx context.Context) (gateway.AuthorityInfo, error) {
	var authority gateway.AuthorityInfo
	err := c.ask(ctx, http.MethodGet, "/v1/authority", nil, &authority)
	return authority, err
}

// RotateAuthority takes one step of a rotation of the authority's root: begin, advance or
// rollback.
func (c *Client) RotateAuthority(ctx context.Context, step string) (gateway.AuthorityInfo, error) {
	var authority gateway.AuthorityInfo
	err := c.ask(ctx, http.MethodPost, "/v1/authority", gateway.RotationStep{Step: step}, &authority)
	return authority, err
}

// Healthy returns nil if a node serves at the address. It needs no token.
func (c *Client) Healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.RequestTimeout, &NoAnswerError{Server: c.Server()})
	defer cancel()
	resp, err := c.send(ctx, http.MethodGet, "/healthz", nil, nil, jsonType)
	if err != nil {
		return err
	}
	defer drain(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return c.misanswered(resp, "its health check fails")
	}
	return nil
}

// Events emits the mesh's events from now on, until ctx ends, emit fails or the connection
// breaks; the error says which.
func (c *Client) Events(ctx context.Context, emit func(gateway.MeshEvent) error) error {
	return c.EventsAfter(ctx, "", emit)
}

// EventsAfter is Events from the event with the given ID on, as far as the nodes still hold
// them. An event of kind "dropped" stands for those that they do not.
func (c *Client) EventsAfter(ctx context.Context, after string, emit func(gateway.MeshEvent) error) error {
	values := url.Values{}
	if after != "" {
		values.Set("after", after)
	}
	return c.listen(ctx, "/v1/events", values, func(ev wireEvent) error {
		var told gateway.MeshEvent
		if err := json.Unmarshal(ev.data, &told); err != nil {
			return &ProtocolError{Server: c.Server(), HTTPStatus: http.StatusOK, Reason: "an event cannot be decoded: " + err.Error()}
		}
		told.ID = ev.id
		return emit(told)
	})
}

// listen reads a stream of events until ctx ends, emit fails or the connection breaks.
func (c *Client) listen(ctx context.Context, path string, values url.Values, emit func(wireEvent) error) error {
	resp, err := c.send(ctx, http.MethodGet, path, values, nil, streamType)
	if err != nil {
		return err
	}
	body := watch(resp.Body, c.cfg.StreamTimeout)
	defer body.Close()
	if resp.StatusCode != http.StatusOK {
		text, err := c.readAnswer(ctx, resp)
		if err != nil {
			return err
		}
		return c.refusal(resp, text)
	}
	if !isStream(resp) {
		return c.misanswered(resp, "it does not stream its events")
	}
	events := newEventReader(body, MaxAnswer)
	for {
		ev, err := events.next()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return c.networkError(ctx, err)
		}
		if ev.name == EventResult { // the node says why it ends the stream
			if failed, ok := failureIn(ev.data); ok {
				return &RefusedError{HTTPStatus: resp.StatusCode, Result: failed}
			}
		}
		if err := emit(ev); err != nil {
			return err
		}
	}
}
