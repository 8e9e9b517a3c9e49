package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"

	"github.com/locusrun/locus/surfaces"
	"github.com/locusrun/locus/surfaces/tracing"
)

const (
	jsonType   = "application/json"
	streamType = "text/event-stream"
)

// ask makes a request whose answer is one JSON object, and decodes it into out unless out
// is nil. A nil body is not sent.
func (c *Client) ask(ctx context.Context, method, path string, body, out any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.RequestTimeout, &NoAnswerError{Server: c.Server()})
	defer cancel()
	resp, err := c.send(ctx, method, path, nil, body, jsonType)
	if err != nil {
		return c.unanswered(ctx, err)
	}
	defer drain(resp.Body)
	text, err := c.readAnswer(ctx, resp)
	if err != nil {
		return c.unanswered(ctx, err)
	}
	if resp.StatusCode != http.StatusOK {
		return c.refusal(resp, text)
	}
	if _, isCall := out.(*surfaces.Result); !isCall {
		if failed, ok := failureIn(text); ok {
			return &RefusedError{HTTPStatus: resp.StatusCode, Result: failed}
		}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return c.misanswered(resp, "its answer to "+method+" "+path+" cannot be decoded: "+err.Error())
	}
	return nil
}

// send starts a request. The error is an *EncodeError if it cannot be encoded, an
// *UnreachableError if no connection could be made, the cause of ctx if that has ended, or else
// a network error.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, body any, accept string) (*http.Response, error) {
	var payload io.Reader
	if body != nil {
		text, err := encode(body)
		if err != nil {
			return nil, &EncodeError{err}
		}
		payload = bytes.NewReader(text)
	}
	u := *c.base
	u.Path, u.RawPath = "", ""
	target := u.String() + c.base.EscapedPath() + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, payload)
	if err != nil {
		return nil, &EncodeError{err}
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("User-Agent", c.cfg.Agent)
	if body != nil {
		req.Header.Set("Content-Type", jsonType)
	}
	if c.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.Token)
	}
	tracing.ToHeader(ctx, req.Header)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.networkError(ctx, err)
	}
	return resp, nil
}

// encode does not escape <, > and &, so that code stays readable on the wire.
func encode(v any) ([]byte, error) {
	if raw, ok := v.(json.RawMessage); ok {
		return raw, nil
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return buf.Bytes(), err
}

func (c *Client) networkError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if unconnected(err) {
		return &UnreachableError{Server: c.Server(), Err: err}
	}
	return err
}

// unconnected reports whether no usable connection was made: nobody listens, or TLS fails.
func unconnected(err error) bool {
	var op *net.OpError
	var record tls.RecordHeaderError
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &op) && op.Op == "dial" || errors.Is(err, http.ErrSchemeMismatch) ||
		errors.As(err, &record) || errors.As(err, &certificate)
}

// unanswered turns a broken connection into a *NoAnswerError. It leaves more specific errors.
func (c *Client) unanswered(ctx context.Context, err error) error {
	var misanswered *ProtocolError
	var unsendable *EncodeError
	if ctx.Err() != nil || isUnreachable(err) || errors.As(err, &misanswered) || errors.As(err, &unsendable) {
		return err
	}
	return &NoAnswerError{Server: c.Server(), Err: err}
}

// readAnswer reads a whole body of at most MaxAnswer bytes.
func (c *Client) readAnswer(ctx context.Context, resp *http.Response) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer+1))
	switch {
	case err != nil:
		return nil, c.networkError(ctx, err)
	case len(text) > MaxAnswer:
		return nil, c.misanswered(resp, "its answer is longer than the client takes")
	}
	return text, nil
}

// refusal makes the error for an answer whose status is not 200.
func (c *Client) refusal(resp *http.Response, text []byte) error {
	result, err := decodeResult(text)
	if err != nil {
		return c.misanswered(resp, "the answer is not the object that a refusal is")
	}
	return &RefusedError{HTTPStatus: resp.StatusCode, Result: result}
}

var errNotResult = errors.New("not a result object")

// decodeResult decodes a Result. An object without status and code is not one.
func decodeResult(text []byte) (surfaces.Result, error) {
	var result surfaces.Result
	if err := json.Unmarshal(text, &result); err != nil {
		return result, err
	}
	if result.Status == "" && result.Code == nil {
		return result, errNotResult
	}
	return result, nil
}

// failureIn finds a failed Result in an answer with status 200: every tool reports lost
// state and time-outs like that.
func failureIn(text []byte) (surfaces.Result, bool) {
	var head struct {
		Status surfaces.Status `json:"status"`
		Code   *surfaces.Code  `json:"code"`
	}
	if json.Unmarshal(text, &head) != nil || head.Code == nil || head.Status != surfaces.StatusFailed && head.Status != surfaces.StatusRefused {
		return surfaces.Result{}, false
	}
	result, err := decodeResult(text)
	return result, err == nil
}

func (c *Client) misanswered(resp *http.Response, reason string) error {
	return &ProtocolError{Server: c.Server(), HTTPStatus: resp.StatusCode, Reason: reason}
}

func isStream(resp *http.Response) bool {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && kind == streamType
}

// drain reads a short rest, so that the connection can be reused.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 4096)
	_ = body.Close()
}
