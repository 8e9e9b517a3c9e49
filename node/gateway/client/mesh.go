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

// Status tells about the node and its mesh.
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

// CreateActor mints an actor. Its token is in the answer and is never shown again.
func (c *Client) CreateActor(ctx context.Context, want gateway.NewActor) (gateway.ActorInfo, error) {
	var actor gateway.ActorInfo
	err := c.ask(ctx, http.MethodPost, "/v1/actors", want, &actor)
	return actor, err
}

// EndActor revokes an actor's tokens and closes its sessions.
func (c *Client) EndActor(ctx context.Context, name string) (gateway.ActorInfo, error) {
	var actor gateway.ActorInfo
	err := c.ask(ctx, http.MethodDelete, "/v1/actors/"+url.PathEscape(name), nil, &actor)
	return actor, err
}

// Healthy says whether a node serves at the address; nil when it does. It needs
// no token.
func (c *Client) Healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.Patience, &Unanswered{Server: c.Server()})
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

// Events tells what happens on the node until ctx ends, emit fails, or the
// connection breaks; the error says which. It does not come back by itself,
// because a node does not keep events for those who were away.
func (c *Client) Events(ctx context.Context, emit func(gateway.MeshEvent) error) error {
	resp, err := c.send(ctx, http.MethodGet, "/v1/events", nil, nil, streamType)
	if err != nil {
		return err
	}
	body := watch(resp.Body, c.cfg.Silence)
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
		var told gateway.MeshEvent
		if err := json.Unmarshal(ev.data, &told); err != nil {
			return c.misanswered(resp, "an event cannot be decoded: "+err.Error())
		}
		if err := emit(told); err != nil {
			return err
		}
	}
}
