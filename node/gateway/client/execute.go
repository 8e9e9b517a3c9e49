package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// Arguments are the arguments of execute_code. Nil fields are not sent, so that the node's
// defaults and checks apply.
type Arguments struct {
	Code           string   `json:"code"`
	Language       *string  `json:"language,omitempty"`
	StateMode      *string  `json:"state_mode,omitempty"`
	SessionID      *int     `json:"session_id,omitempty"`
	SessionName    *string  `json:"session_name,omitempty"`
	VenvID         *int     `json:"venv_id,omitempty"`
	Surface        *string  `json:"surface,omitempty"`
	Machine        *string  `json:"machine,omitempty"`
	TimeoutS       *float64 `json:"timeout_s,omitempty"`
	OnLoss         *string  `json:"on_loss,omitempty"`
	Atomic         *bool    `json:"atomic,omitempty"`
	Keep           *bool    `json:"keep,omitempty"`
	Background     *bool    `json:"background,omitempty"`
	IdempotencyKey *string  `json:"idempotency_key,omitempty"`
	Thought        *string  `json:"thought,omitempty"`
	Stdin          *string  `json:"stdin,omitempty"`
	// Files are placed in the code's folder, on linked machines only.
	Files []File `json:"files,omitempty"`
	// Primitives lists what the code may ask the caller for; an empty list allows nothing.
	// If it is nil, the caller has to answer any name.
	Primitives      *[]surfaces.Offer `json:"primitives,omitempty"`
	PrimitivesLimit *int              `json:"primitives_limit,omitempty"`
}

// Execute runs a call and waits for its end, or only for its start if it runs in the
// background. A refused or failed call is a result, not an error. Ending ctx stops the
// call.
func (c *Client) Execute(ctx context.Context, args Arguments) (surfaces.Result, error) {
	resp, err := c.send(ctx, http.MethodPost, "/v1/tools/execute_code", nil, args, jsonType)
	if err != nil {
		return surfaces.Result{}, asConnectionLost(ctx, err, "")
	}
	defer drain(resp.Body)
	return c.wholeResult(ctx, resp, "")
}

// wholeResult reads an answer that is one Result.
func (c *Client) wholeResult(ctx context.Context, resp *http.Response, callID string) (surfaces.Result, error) {
	text, err := c.readAnswer(ctx, resp)
	if err != nil {
		return surfaces.Result{}, asConnectionLost(ctx, err, callID)
	}
	result, err := decodeResult(text)
	if err != nil {
		return surfaces.Result{}, c.misanswered(resp, "the answer is not the object that answers a call")
	}
	return result, nil
}

// Execution returns the present result of one of this actor's calls.
func (c *Client) Execution(ctx context.Context, callID string) (surfaces.Result, error) {
	var result surfaces.Result
	err := c.ask(ctx, http.MethodGet, executionPath(callID), nil, &result)
	return result, err
}

// Executions lists those of this actor's calls that the mesh still keeps and q selects, newest
// first.
func (c *Client) Executions(ctx context.Context, q gateway.ExecutionQuery) (gateway.ExecutionList, error) {
	query := url.Values{}
	if q.Status != "" {
		query.Set("status", string(q.Status))
	}
	if q.Before != "" {
		query.Set("before", q.Before)
	}
	if q.Limit > 0 {
		query.Set("limit", strconv.Itoa(q.Limit))
	}
	path := "/v1/executions"
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	var calls gateway.ExecutionList
	err := c.ask(ctx, http.MethodGet, path, nil, &calls)
	return calls, err
}

// Pause freezes a running call and its children.
func (c *Client) Pause(ctx context.Context, callID string) (json.RawMessage, error) {
	return c.steer(ctx, callID, "pause", struct{}{})
}

// Resume thaws a paused call.
func (c *Client) Resume(ctx context.Context, callID string) (json.RawMessage, error) {
	return c.steer(ctx, callID, "resume", struct{}{})
}

// Stop interrupts a call and, a second later, ends what is left of it.
func (c *Client) Stop(ctx context.Context, callID string) (json.RawMessage, error) {
	return c.steer(ctx, callID, "stop", struct{}{})
}

// Ask runs a read-only program against a snapshot of a busy session.
func (c *Client) Ask(ctx context.Context, callID, code string) (json.RawMessage, error) {
	return c.steer(ctx, callID, "ask", map[string]string{"code": code})
}

// Interject sends a message that the running code can read.
func (c *Client) Interject(ctx context.Context, callID, message string) (json.RawMessage, error) {
	return c.steer(ctx, callID, "interject", map[string]string{"message": message})
}

// Answer answers a question that the running code asked. An empty id answers the
// one question that is open.
func (c *Client) Answer(ctx context.Context, callID, id, answer string) (json.RawMessage, error) {
	body := map[string]string{"answer": answer}
	if id != "" {
		body["id"] = id
	}
	return c.steer(ctx, callID, "answer", body)
}

func (c *Client) steer(ctx context.Context, callID, action string, body any) (json.RawMessage, error) {
	var answer json.RawMessage
	err := c.ask(ctx, http.MethodPost, executionPath(callID)+"/"+action, body, &answer)
	return answer, err
}

// PrimitiveOutcome is the caller's answer to a primitive: a result or an error.
type PrimitiveOutcome struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  *string         `json:"error,omitempty"`
}

// AnswerPrimitive sends the outcome of a primitive that the code called.
func (c *Client) AnswerPrimitive(ctx context.Context, callID, seq string, outcome PrimitiveOutcome) error {
	return c.ask(ctx, http.MethodPost, executionPath(callID)+"/primitives/"+url.PathEscape(seq), outcome, nil)
}

// Primitives lists the primitives that the code of a call has used so far.
func (c *Client) Primitives(ctx context.Context, callID string) (gateway.PrimitiveList, error) {
	var list gateway.PrimitiveList
	err := c.ask(ctx, http.MethodGet, executionPath(callID)+"/primitives", nil, &list)
	return list, err
}

func executionPath(callID string) string { return "/v1/executions/" + url.PathEscape(callID) }
