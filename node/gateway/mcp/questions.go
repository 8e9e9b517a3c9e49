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

// question is what running code wants to know.
type question struct {
	ID       string `json:"id"`
	Question string `json:"question"`
}

// way is how a client can be asked.
type way uint8

const (
	wayNone   way = iota // it cannot
	wayAsk               // by a request of ours while its own is open
	wayReturn            // by an answer that says what is missing; it comes again
)

// fromVersion is the first version of the protocol in which servers send no requests.
const fromVersion = "2026-07-28"

// wayOf finds out how the client of a session can be asked.
func wayOf(session *sdk.ServerSession) way {
	client := session.InitializeParams()
	if client == nil || client.Capabilities == nil || client.Capabilities.Elicitation == nil {
		return wayNone
	}
	if e := client.Capabilities.Elicitation; e.Form == nil && e.URL != nil {
		return wayNone // it only opens pages
	}
	if client.ProtocolVersion >= fromVersion {
		return wayReturn
	}
	return wayAsk
}

// form is what the person gets to fill in.
func (q question) form() *sdk.ElicitParams {
	return &sdk.ElicitParams{
		Mode: "form", Message: q.Question,
		RequestedSchema: json.RawMessage(`{"type":"object","properties":{"answer":{"type":"string","title":"Answer"}},"required":["answer"]}`),
	}
}

// answerIn finds the answer in a form; ok is false when the person gave none.
func answerIn(filled *sdk.ElicitResult) (text string, ok bool) {
	if filled.Action != "accept" {
		return "", false
	}
	text, ok = filled.Content["answer"].(string)
	return text, ok
}

// asked ends the telling of a call because its client has to come again with an
// answer.
type asked struct{ question }

// Error gives the question.
func (a *asked) Error() string { return "the code asks: " + a.Question }

// round is what a client brings back with an answer: which call goes on, from which
// byte of its output, how many of its other events it was told, and which questions
// it was asked. It leads only to calls of the client's own actor.
type round struct {
	Call  string   `json:"call"`
	From  int64    `json:"from"`
	Told  int      `json:"told"`
	Asked []string `json:"asked"`
}

// missing is the answer to a client that has to ask a person.
func (r round) missing(q question) (*sdk.CallToolResult, error) {
	r.Asked = append(r.Asked, q.ID)
	state, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{q.ID: q.form()}, RequestState: string(state)}, nil
}

// roundOf reads what a client brought back.
func roundOf(state string) (round, error) {
	var r round
	err := json.Unmarshal([]byte(state), &r)
	if err == nil && (r.Call == "" || r.From < 0 || r.Told < 0 || len(r.Asked) > maxAsked) {
		err = errors.New("it is incomplete")
	}
	if err != nil {
		return r, &surfaces.Refusal{
			Code: surfaces.CodeInvalidArgument, Message: fmt.Sprintf("requestState is not one that was given here: %v", err),
			Suggestion: "send requestState as it came, or make the call anew without it",
		}
	}
	return r, nil
}

// maxAsked bounds how many questions of one call are asked by rounds.
const maxAsked = 1000

// asker puts the questions of a call to its client one after the other, while the
// call goes on.
type asker struct {
	ask     func(context.Context, question) error
	waiting chan question
	cancel  context.CancelFunc
	ended   sync.WaitGroup
	missed  func(question, error)
}

// startAsking begins to ask; end must be called.
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

// put takes a question, if there is room for one.
func (a *asker) put(q question) bool {
	select {
	case a.waiting <- q:
		return true
	default:
		return false
	}
}

// end withdraws what was not answered, and returns when nothing is asked any more.
func (a *asker) end() {
	if a == nil {
		return
	}
	a.cancel()
	a.ended.Wait()
}

// wasAsked says whether a client was asked in an earlier round.
func (r round) wasAsked(q question) bool { return slices.Contains(r.Asked, q.ID) }
