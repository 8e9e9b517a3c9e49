package node

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// steering is the body of a steering request. Text is an alternative name for Message and
// Answer.
type steering struct {
	Code     string   `json:"code,omitempty"`
	TimeoutS *float64 `json:"timeout_s,omitempty"`
	Message  *string  `json:"message,omitempty"`
	ID       string   `json:"id,omitempty"`
	Answer   *string  `json:"answer,omitempty"`
	Text     *string  `json:"text,omitempty"`
}

// runs is how long the program of a question may run.
func (s steering) runs() time.Duration {
	switch {
	case s.TimeoutS != nil:
		return time.Duration(*s.TimeoutS * float64(time.Second))
	case s.Code != "":
		return askLimit
	}
	return 0
}

// steeringTakes lists the arguments of each action.
var steeringTakes = map[string][]string{
	"pause": nil, "resume": nil, "stop": nil,
	"ask":       {"code", "timeout_s"},
	"interject": {"message", "text"},
	"answer":    {"answer", "id", "text"},
}

// readSteering decodes and checks the body of a steering request.
func readSteering(action string, body []byte) (steering, *surfaces.Refusal) {
	var s steering
	takes, ok := steeringTakes[action]
	if !ok {
		return s, &surfaces.Refusal{Code: surfaces.CodeInvalidArgument, Message: fmt.Sprintf("there is no action %.40q", action), HTTP: 404}
	}
	if len(body) == 0 {
		body = []byte("{}")
	}
	if err := surfaces.DecodeObject(body, &s); err != nil {
		return s, invalidArgument("Send a JSON object with "+oneOf(takes)+".", "the arguments of %s cannot be taken: %v", action, err)
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(body, &given); err != nil {
		return s, invalidArgument("Send a JSON object.", "the arguments of %s cannot be taken", action) // cannot happen: it was decoded above
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(takes, name) {
			return s, invalidArgument("Drop "+name+".", "%s takes %s, and %.40q was given", action, oneOf(takes), name)
		}
	}
	switch {
	case action == "interject" && first(s.Message, s.Text) == nil:
		return s, invalidArgument("Add message.", "there is no message to interject")
	case action == "interject" && *first(s.Message, s.Text) == "":
		return s, invalidArgument("Set message to what the code is to read.", "the message to interject is empty")
	case action == "answer" && first(s.Answer, s.Text) == nil:
		return s, invalidArgument("Add answer.", "there is no answer")
	case s.TimeoutS != nil && (*s.TimeoutS <= 0 || *s.TimeoutS > surfaces.MaxTimeout.Seconds()):
		return s, invalidArgument(fmt.Sprintf("Set timeout_s to more than 0 and at most %.0f.", surfaces.MaxTimeout.Seconds()), "timeout_s = %v was given", *s.TimeoutS)
	}
	return s, nil
}

// oneOf lists an action's arguments for an error message.
func oneOf(names []string) string {
	if len(names) == 0 {
		return "no arguments"
	}
	return "no more than " + strings.Join(names, ", ")
}

func first(a, b *string) *string {
	if a != nil {
		return a
	}
	return b
}
