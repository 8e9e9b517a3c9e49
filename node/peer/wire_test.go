package peer

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	fastjson "github.com/segmentio/encoding/json"

	"github.com/locusrun/locus/node/calls"
	"github.com/locusrun/locus/surfaces"
	"github.com/locusrun/locus/surfaces/tracing"
)

// fullResult has every field set.
func fullResult(text string) surfaces.Result {
	place, language, mode, number, code, seconds := surfaces.Local, surfaces.Python, surfaces.Stateful, 7, surfaces.CodeException, 1.5
	return surfaces.Result{
		CallID: text, Status: surfaces.StatusFailed, Stdout: text, Result: json.RawMessage(`{"a":[1,2.5e300,null,"\u00e9"]}`), ResultType: &text,
		Display: []surfaces.Display{{MIME: "image/png", Data: text}}, Error: &text, Code: &code, Suggestion: &text,
		Fix: &surfaces.Fix{Drop: []string{"atomic"}, Set: map[string]any{"surface": "local", "n": 1.0}}, RetryAfterS: &seconds,
		Exception: &surfaces.Exception{Type: text, Message: text, Traceback: text}, Exit: &surfaces.Exit{Signal: "SIGKILL"},
		Language: &language, StateMode: &mode, SessionID: &number, SessionName: &text, VenvID: &number, Surface: &place, Node: text,
		SessionCreated: true, DurationMS: 0.125, Attempts: 2, StateLost: surfaces.StateLost{Loss: &surfaces.Loss{Reason: text, Epoch: 1 << 63}},
		Usage: &surfaces.Usage{}, Notice: []surfaces.Notice{{Kind: text, Text: text}},
	}
}

// messages are the JSON messages of the package's wire format, with every field set.
func messages(text string) map[string]any {
	full := fullResult(text)
	number := *full.SessionID
	return map[string]any{
		"an empty end": &end{},
		"a full end":   &end{Result: full, Loss: &lost{Before: true, MayHaveRun: true, Reason: text, At: time.Unix(1e9, 5).UTC(), Epoch: 9}, Stdout: 1 << 62, Stderr: 3},
		"an attempt": &attempt{
			CallID: text, Number: 2, Actor: text, Life: 1 << 63, Language: surfaces.Python, StateMode: surfaces.Stateful, OnLoss: surfaces.Retry, Timeout: time.Hour,
			Atomic: true, Keep: new(bool), Background: true, Thought: text, Parent: text, SessionID: &number, SessionName: &text, VenvID: &number,
			Session: &session{ID: 3, Venv: 4, Name: text, Epoch: 8}, From: calls.Mark{Span: 1, At: 1 << 40},
		},
		"an attempt with less": &attempt{CallID: text, Timeout: time.Second, Of: time.Minute},
		"a traced attempt":     &attempt{CallID: text, Number: 1, Actor: text, Language: surfaces.Sh, StateMode: surfaces.Stateless, Trace: tracing.Carrier{"traceparent": "00-1-2-01", "tracestate": "a=b"}},
		"an event":             &surfaces.Event{Kind: surfaces.EventPrimitive, ID: "1", Name: text, Text: text, Data: json.RawMessage(`{"a":"\ud800"}`), Display: &full.Display[0]},
		"a call to follow":     &followRequest{Actor: "ada", CallID: "call_1", From: calls.Mark{Span: 1, At: 2}},
		"a call as a whole":    &outputRequest{Actor: "ada", CallID: "call_1", Number: 2, Epoch: 3},
		"are you there":        &aliveAsk{CallID: "call_1"},
		"there":                &aliveAnswer{Held: true},
		"there, and overdue":   &aliveAnswer{Remaining: new(time.Duration)},
		"an attempt's host":    &hostRequest{CallID: "call_1", Actor: "ada", Number: 2},
		"a use of the host":    &hostUse{Seq: "1", Name: "files.read", Data: json.RawMessage(`{"a":1}`), Remaining: time.Second},
		"the host's answer":    &hostAnswer{Use: 1, Answer: json.RawMessage(`{"b":2}`)},
		"a refusal":            &refusal{Code: surfaces.CodeNoCapacity, Message: text, Suggestion: text, Fix: full.Fix, RetryAfterS: 1.5, HTTP: 503},
	}
}

// The fast parser gives the same result as the standard library's.
func TestFastReading(t *testing.T) {
	for name, v := range messages("a \"text\"\u2028\x00\xff <&>") {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		standard, fast := reflect.New(reflect.TypeOf(v).Elem()), reflect.New(reflect.TypeOf(v).Elem())
		if err := json.Unmarshal(b, standard.Interface()); err != nil {
			t.Fatal(err)
		}
		if err := fastjson.Unmarshal(b, fast.Interface()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(fast.Interface(), standard.Interface()) {
			t.Errorf("%s: %s is read as %+v", name, b, fast.Elem())
		}
	}
}
