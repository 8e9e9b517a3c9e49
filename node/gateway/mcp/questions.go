package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/locusrun/locus/surfaces"
)

// maxQuestions bounds the questions of one call that wait for a person.
const maxQuestions = 16

// question is a question of the running code.
type question struct {
	ID       string `json:"id"`
	Question string `json:"question"`
}

// way is how a client can be asked.
type way uint8

const (
	wayNone   way = iota // not at all
	wayAsk               // by a request to the client during its own
	wayReturn            // by an answer that names the missing input; the client repeats the request with it
)

// fromVersion is the first protocol version in which servers send no requests.
const fromVersion = "2026-07-28"

// wayOf returns how the client of a session can be asked.
func wayOf(session *sdk.ServerSession) way {
	client := session.InitializeParams()
	if client == nil || client.Capabilities == nil || client.Capabilities.Elicitation == nil {
		return wayNone
	}
	if e := client.Capabilities.Elicitation; e.Form == nil && e.URL != nil {
		return wayNone // it only opens URLs
	}
	if client.ProtocolVersion >= fromVersion {
		return wayReturn
	}
	return wayAsk
}

// form is the form that the person fills in.
func (q question) form() *sdk.ElicitParams {
	return &sdk.ElicitParams{
		Mode: "form", Message: q.Question,
		RequestedSchema: json.RawMessage(`{"type":"object","properties":{"answer":{"type":"string","title":"Answer"}},"required":["answer"]}`),
	}
}

// answerIn returns the answer in a form; ok is false if the person gave none.
func answerIn(filled *sdk.ElicitResult) (text string, ok bool) {
	if filled.Action != "accept" {
		return "", false
	}
	text, ok = filled.Content["answer"].(string)
	return text, ok
}

// asked is the error that ends a round: the client has to come back with an answer.
type asked struct{ question }

// Error returns the question.
func (a *asked) Error() string { return "the code asks: " + a.Question }

// round is the state that a client brings back with an answer: the call, the output offset,
// the number of other events sent, and the questions asked. A client can change it, but
// reach only calls of its own actor.
type round struct {
	Call  string   `json:"call"`
	From  int64    `json:"from"`
	Told  int      `json:"told"`
	Asked []string `json:"asked"`
}

// missing is the answer that asks the client for input.
func (r round) missing(q question) (*sdk.CallToolResult, error) {
	r.Asked = append(r.Asked, q.ID)
	state, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{q.ID: q.form()}, RequestState: string(state)}, nil
}

// roundOf decodes the state that a client brought back.
func roundOf(state string) (round, error) {
	var r round
	err := json.Unmarshal([]byte(state), &r)
	if err == nil && (r.Call == "" || r.From < 0 || r.Told < 0 || len(r.Asked) > maxAsked) {
		err = errors.New("it is incomplete")
	}
	if err != nil {
		return r, &surfaces.Refusal{
			Code: surfaces.CodeInvalidArgument, Message: fmt.Sprintf("requestState is not one that was given here: %v", err),
			Suggestion: "Send requestState as it came, or make the call anew without it.",
		}
	}
	return r, nil
}

// maxAsked bounds the questions of one call that are asked by rounds.
const maxAsked = 1000

// asker asks the client a call's questions one after another, while the call goes on.
type asker struct {
	ask     func(context.Context, question) error
	waiting chan question
	cancel  context.CancelFunc
	ended   sync.WaitGroup
	missed  func(question, error)
}

// startAsking starts the asker; end must be called.
func startAsking(ctx context.Context, ask func(context.Context, question) error, missed func(question, error)) *asker {
	ctx, cancel := context.WithCancel(ctx)
	a := &asker{ask: ask, waiting: make(chan question, maxQuestions), cancel: cancel, missed: missed}
	a.ended.Go(func() {
		for {
			select {
			case q := <-a.waiting:
				if err := a.ask(ctx, q); err != nil && ctx.Err() == nil {
					a.missed(q, err)
				}
			case <-ctx.Done():
				return
			}
		}
	})
	return a
}

// put queues a question; false if the queue is full.
func (a *asker) put(q question) bool {
	select {
	case a.waiting <- q:
		return true
	default:
		return false
	}
}

// end cancels the open questions and waits for that.
func (a *asker) end() {
	if a == nil {
		return
	}
	a.cancel()
	a.ended.Wait()
}

// wasAsked reports whether a question was asked in an earlier round.
func (r round) wasAsked(q question) bool { return slices.Contains(r.Asked, q.ID) }
