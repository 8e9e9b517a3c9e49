package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// answer makes a request whose answer is an A.
func answer[A any](ctx context.Context, c *Client, method, path string, body any) (A, error) {
	var a A
	err := c.ask(ctx, method, path, body, &a)
	return a, err
}

// Venvs lists the stored environments.
func (c *Client) Venvs(ctx context.Context) (gateway.VenvList, error) {
	return answer[gateway.VenvList](ctx, c, http.MethodGet, "/v1/venvs", nil)
}

// AddVenv stores an environment, unless one with the same content exists.
func (c *Client) AddVenv(ctx context.Context, want gateway.NewVenv) (gateway.VenvInfo, error) {
	return answer[gateway.VenvInfo](ctx, c, http.MethodPost, "/v1/venvs", want)
}

// Venv returns a stored environment.
func (c *Client) Venv(ctx context.Context, id int) (gateway.VenvInfo, error) {
	return answer[gateway.VenvInfo](ctx, c, http.MethodGet, venvPath(id), nil)
}

// RemoveVenv removes an environment that is not in use.
func (c *Client) RemoveVenv(ctx context.Context, id int) (gateway.VenvInfo, error) {
	return answer[gateway.VenvInfo](ctx, c, http.MethodDelete, venvPath(id), nil)
}

func venvPath(id int) string { return "/v1/venvs/" + strconv.Itoa(id) }

// BuildVenv builds an environment on the node, or waits for a build in progress; say gets
// the progress. A failed build is a *RefusedError whose result has the builder's output as
// stderr. Ending ctx ends only the waiting, if others wait for the build too.
func (c *Client) BuildVenv(ctx context.Context, id int, say func(surfaces.Notice) error) (gateway.VenvInfo, error) {
	resp, err := c.send(ctx, http.MethodPost, venvPath(id)+"/build", nil, nil, streamType)
	if err != nil {
		return gateway.VenvInfo{}, err
	}
	body := watch(resp.Body, c.cfg.StreamTimeout)
	defer body.Close()
	if resp.StatusCode != http.StatusOK {
		text, err := c.readAnswer(ctx, resp)
		if err != nil {
			return gateway.VenvInfo{}, c.unanswered(ctx, err)
		}
		return gateway.VenvInfo{}, c.refusal(resp, text)
	}
	if !isStream(resp) {
		return gateway.VenvInfo{}, c.misanswered(resp, "it does not tell how the build goes")
	}
	for events := newEventReader(body, MaxAnswer); ; {
		ev, err := events.next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return gateway.VenvInfo{}, c.unanswered(ctx, c.networkError(ctx, err))
		}
		switch ev.name {
		case "notice":
			var n surfaces.Notice
			if err := json.Unmarshal(ev.data, &n); err != nil {
				return gateway.VenvInfo{}, c.misanswered(resp, fmt.Sprintf("a notice cannot be decoded: %v", err))
			}
			if err := say(n); err != nil {
				return gateway.VenvInfo{}, err
			}
		case "result":
			return c.built(resp, ev.data)
		}
	}
}

// built decodes the last event of a build.
func (c *Client) built(resp *http.Response, data []byte) (gateway.VenvInfo, error) {
	if failed, ok := failureIn(data); ok {
		return gateway.VenvInfo{}, &RefusedError{HTTPStatus: resp.StatusCode, Result: failed}
	}
	var v gateway.VenvInfo
	if err := json.Unmarshal(data, &v); err != nil {
		return v, c.misanswered(resp, fmt.Sprintf("the result of the build cannot be decoded: %v", err))
	}
	return v, nil
}

// Functions lists the stored functions that have all words of a query, without their
// sources.
func (c *Client) Functions(ctx context.Context, query string) (gateway.FunctionList, error) {
	return answer[gateway.FunctionList](ctx, c, http.MethodGet, "/v1/functions"+withQuery("q", query), nil)
}

// PutFunction stores a function, or a new version of it.
func (c *Client) PutFunction(ctx context.Context, want gateway.NewFunction) (gateway.FunctionInfo, error) {
	return answer[gateway.FunctionInfo](ctx, c, http.MethodPost, "/v1/functions", want)
}

// Function returns a stored function with its source.
func (c *Client) Function(ctx context.Context, name string) (gateway.FunctionInfo, error) {
	return answer[gateway.FunctionInfo](ctx, c, http.MethodGet, functionPath(name), nil)
}

// RemoveFunction removes a function.
func (c *Client) RemoveFunction(ctx context.Context, name string) (gateway.FunctionInfo, error) {
	return answer[gateway.FunctionInfo](ctx, c, http.MethodDelete, functionPath(name), nil)
}

func functionPath(name string) string { return "/v1/functions/" + url.PathEscape(name) }

// RunFunction runs a function and emits the call's events like Stream.
func (c *Client) RunFunction(ctx context.Context, name string, with gateway.FunctionArguments, emit func(gateway.StreamEvent) error) (surfaces.Result, error) {
	f := &follower{c: c, emit: emit}
	return f.run(ctx, func() (*http.Response, error) {
		return c.send(ctx, http.MethodPost, functionPath(name)+"/run", nil, with, streamType)
	})
}

// PrimitiveServers lists an actor's MCP servers; an empty actor is the caller.
func (c *Client) PrimitiveServers(ctx context.Context, actor string) (gateway.ServerList, error) {
	return answer[gateway.ServerList](ctx, c, http.MethodGet, "/v1/primitives"+withQuery("actor", actor), nil)
}

// PutPrimitiveServer stores an MCP server of an actor and replaces one of the same name.
func (c *Client) PutPrimitiveServer(ctx context.Context, want gateway.NewServer) (gateway.ServerInfo, error) {
	return answer[gateway.ServerInfo](ctx, c, http.MethodPost, "/v1/primitives", want)
}

// RemovePrimitiveServer removes an MCP server of an actor; an empty actor is the caller.
func (c *Client) RemovePrimitiveServer(ctx context.Context, actor, name string) (gateway.ServerInfo, error) {
	return answer[gateway.ServerInfo](ctx, c, http.MethodDelete, "/v1/primitives/"+url.PathEscape(name)+withQuery("actor", actor), nil)
}

// withQuery returns a query with one parameter; empty if the value is.
func withQuery(name, value string) string {
	if value == "" {
		return ""
	}
	return "?" + url.Values{name: {value}}.Encode()
}
