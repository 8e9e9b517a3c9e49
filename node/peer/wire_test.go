package peer

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	fastjson "github.com/segmentio/encoding/json"

	"github.com/locusrun/locus/node/calls"
	"github.com/locusrun/locus/surfaces"
)

// What is read fast is what the standard library reads.
func TestFastReading(t *testing.T) {
	text, place, language, mode, number, code, seconds := "a \"text\"\u2028\x00\xff <&>", surfaces.Local, surfaces.Python, surfaces.Stateful, 7, surfaces.CodeException, 1.5
	full := surfaces.Result{
		CallID: text, Status: surfaces.StatusFailed, Stdout: text, Result: json.RawMessage(`{"a":[1,2.5e300,null,"\u00e9"]}`), ResultType: &text,
		Display: []surfaces.Display{{MIME: "image/png", Data: text}}, Error: &text, Code: &code, Suggestion: &text,
		Fix: &surfaces.Fix{Drop: []string{"atomic"}, Set: map[string]any{"surface": "local", "n": 1.0}}, RetryAfterS: &seconds,
		Exception: &surfaces.Exception{Type: text, Message: text, Traceback: text}, Exit: &surfaces.Exit{Signal: "SIGKILL"},
		Language: &language, StateMode: &mode, SessionID: &number, SessionName: &text, VenvID: &number, Surface: &place, Node: text,
		SessionCreated: true, DurationMS: 0.125, Attempts: 2, StateLost: surfaces.StateLost{Loss: &surfaces.Loss{Reason: text, Epoch: 1 << 63}},
		Usage: &surfaces.Usage{}, Notice: []surfaces.Notice{{Kind: text, Text: text}},
	}
	for name, v := range map[string]any{
		"an empty end": &end{},
		"a full end":   &end{Result: full, Loss: &lost{MayHaveRun: true, Reason: text, At: time.Unix(1e9, 5).UTC(), Epoch: 9}, Stdout: 1 << 62, Stderr: 3},
		"an attempt": &attempt{
			CallID: text, Number: 2, Actor: text, Life: 1 << 63, Language: language, StateMode: mode, OnLoss: surfaces.Retry, Timeout: time.Hour,
			Atomic: true, Thought: text, SessionID: &number, SessionName: &text, Session: &session{ID: 3, Name: text, Epoch: 8}, From: calls.Mark{Span: 1, At: 1 << 40},
		},
		"an event": &surfaces.Event{Kind: surfaces.EventPrimitive, ID: "1", Name: text, Data: json.RawMessage(`{"a": "\ud800"}`), Display: &full.Display[0]},
	} {
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
