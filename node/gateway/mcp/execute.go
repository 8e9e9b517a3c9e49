package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/locusrun/locus/surfaces"
	"github.com/locusrun/locus/surfaces/tracing"
)

// execute runs execute_code, or continues a call whose client comes back with an answer.
func (h *handlers) execute(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	ctx, node, end := h.serving(ctx, req.Extra)
	defer end()
	ctx = tracing.FromMeta(ctx, req.Params.Meta)
	c := &call{h: h, req: req, node: node, way: wayOf(req.Session)}
	if token := req.Params.GetProgressToken(); token != nil {
		c.progress = startProgress(ctx, func(ctx context.Context, nth float64, text string) { c.tell(ctx, token, nth, text) })
	}
	if c.way == wayAsk {
		c.asker = startAsking(ctx, c.ask, c.unanswered)
	}
	res, err := c.run(ctx)
	var waits *asked
	switch {
	case err == nil:
		return resultOf(res, c.remarks()), nil
	case errors.As(err, &waits):
		return c.round.missing(waits.question)
	case ctx.Err() != nil:
		return nil, errCancelled
	}
	return resultOf(node.Explain(err), c.remarks()), nil
}

// call is one request of execute_code.
type call struct {
	h        *handlers
	req      *sdk.CallToolRequest
	node     Node
	way      way
	progress *progress // nil if the client wants none
	asker    *asker    // nil if the client cannot be asked during the call

	// round is the position in the call. Only the goroutine of run uses it.
	round   round
	earlier int              // events that were sent in earlier rounds
	refused map[string]error // questions of the last round that were not answered

	mu   sync.Mutex
	open []string // remarks about unanswered questions
}

// run runs the call and returns when all progress was sent and no question is open.
func (c *call) run(ctx context.Context) (surfaces.Result, error) {
	defer c.progress.end()
	defer c.asker.end()
	if c.req.Params.RequestState == "" {
		return c.node.Execute(ctx, arguments(c.req), func(ev Event) error { return c.emit(ctx, ev) })
	}
	var err error
	if c.round, err = roundOf(c.req.Params.RequestState); err != nil {
		return surfaces.Result{}, err
	}
	c.earlier, c.round.Told = c.round.Told, 0
	c.refused = make(map[string]error)
	for id, response := range c.req.Params.InputResponses {
		if filled, ok := response.(*sdk.ElicitResult); !ok {
			c.refused[id] = errNoAnswer
		} else if err := c.pass(ctx, question{ID: id}, filled); err != nil {
			c.refused[id] = err
		}
	}
	return c.node.Follow(ctx, c.round.Call, c.round.From, func(ev Event) error { return c.emit(ctx, ev) })
}

// emit handles the events of the call. Events of earlier rounds are skipped.
func (c *call) emit(ctx context.Context, ev Event) error {
	c.round.From = max(c.round.From, ev.Offset)
	if ev.Name != surfaces.StreamStdout && ev.Name != surfaces.StreamStderr {
		c.round.Told++
	}
	known := c.round.Told <= c.earlier
	var data struct {
		CallID string          `json:"call_id"`
		Node   string          `json:"node"`
		Text   string          `json:"text"`
		Kind   string          `json:"kind"`
		Seq    json.RawMessage `json:"seq"`
		Name   string          `json:"name"`
	}
	switch ev.Name {
	case surfaces.EventClarification, surfaces.EventDisplay:
	default:
		if err := json.Unmarshal(ev.Data, &data); err != nil {
			return fmt.Errorf("the event %q cannot be decoded: %w", ev.Name, err)
		}
	}
	switch ev.Name {
	case surfaces.StreamStdout, surfaces.StreamStderr:
		c.progress.output(data.Text)
	case surfaces.EventClarification:
		return c.question(ev.Data)
	case surfaces.EventStarted:
		c.round.Call = data.CallID
		if !known {
			c.progress.line("call " + data.CallID + " started on " + data.Node)
		}
	case surfaces.EventNotify:
		if !known {
			c.progress.line(data.Text)
		}
	case surfaces.EventNotice:
		if !known {
			c.progress.line(data.Kind + ": " + data.Text)
		}
	case surfaces.EventPrimitive:
		if known {
			return nil
		}
		c.decline(ctx, strings.Trim(string(data.Seq), `"`), data.Name)
	}
	return nil
}

// decline tells the code that the caller does not perform a primitive. MCP has no means for
// it.
func (c *call) decline(ctx context.Context, seq, name string) {
	answer, err := json.Marshal(map[string]any{"error": map[string]string{
		"type": "unknown", "message": fmt.Sprintf("there is no primitive %q: a caller by the Model Context Protocol offers none of its own", name),
	}})
	if err == nil {
		err = c.node.AnswerPrimitive(ctx, c.round.Call, seq, answer)
	}
	if err != nil && ctx.Err() == nil {
		// It was for somebody else to answer, or the call has just ended.
		c.h.log.Debug("a primitive was not declined", "call_id", c.round.Call, "name", name, "error", err)
	}
}

// question asks the client, in the way it supports.
func (c *call) question(data json.RawMessage) error {
	var q question
	if err := json.Unmarshal(data, &q); err != nil {
		return fmt.Errorf("a question of the call cannot be decoded: %w", err)
	}
	switch {
	case c.round.wasAsked(q):
		if err := c.refused[q.ID]; err != nil {
			c.unanswered(q, err)
		}
		return nil
	case c.way == wayReturn && len(c.round.Asked) < maxAsked:
		return &asked{q}
	case c.asker != nil && c.asker.put(q):
		return nil
	}
	c.unanswered(q, errCannotAsk)
	return nil
}

var (
	errCannotAsk = errors.New("this client cannot put it to a person: put what the code needs to know into the code")
	errNoAnswer  = errors.New("no answer was given")
)

// ask asks the client and passes the answer on to the code.
func (c *call) ask(ctx context.Context, q question) error {
	filled, err := c.req.Session.Elicit(ctx, q.form())
	if err != nil {
		return err
	}
	return c.pass(ctx, q, filled)
}

// pass passes a person's answer on to the code.
func (c *call) pass(ctx context.Context, q question, filled *sdk.ElicitResult) error {
	text, ok := answerIn(filled)
	if !ok {
		return errNoAnswer
	}
	return c.node.Answer(ctx, c.round.Call, q.ID, text)
}

// unanswered reports a question that this client cannot answer, now as progress and later
// in the result.
func (c *call) unanswered(q question, why error) {
	c.progress.line(fmt.Sprintf("the code asks: %s\n(%v; answer with: locus calls answer --id %s %s TEXT)", q.Question, why, q.ID, c.round.Call))
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) < maxQuestions {
		c.open = append(c.open, fmt.Sprintf("the code asked by request_clarification: %s\n(%v)\n", q.Question, why))
	}
}

// remarks returns the text to add to the result.
func (c *call) remarks() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.open, "")
}

// tell sends one progress notification.
func (c *call) tell(ctx context.Context, token any, nth float64, text string) {
	err := c.req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: nth, Message: text})
	if err != nil && ctx.Err() == nil {
		c.h.log.Debug("progress was not told", "error", err)
	}
}
