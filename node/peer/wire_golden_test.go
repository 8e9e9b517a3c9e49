package peer

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	fastjson "github.com/segmentio/encoding/json"

	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/node/calls"
	"github.com/locusrun/locus/surfaces"
)

var writeGolden = flag.Bool("write-golden", false, "write the file of the wire anew")

// items are the items of a call's report, by name.
func items() map[string]calls.Item {
	return map[string]calls.Item{
		"part: stdout": {Stream: surfaces.StreamStdout, Text: []byte("text"), Offset: 300, Next: calls.Mark{Span: 3, At: 304}},
		"part: stderr": {Stream: surfaces.StreamStderr, Text: []byte{0xff}, Next: calls.Mark{Span: 1, At: 1}},
		"part: event":  {Event: &surfaces.Event{Kind: surfaces.EventNotify, Text: "half"}, Next: calls.Mark{Span: 2, At: 11}},
	}
}

// written is the whole wire format as this release writes it, by name.
func written(t *testing.T) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for name, v := range messages("a \"text\"\u2028\x00é <&>") {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = b
	}
	for name, it := range items() {
		b, err := appendItem(nil, it)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = b
	}
	var err error
	if all["part: end"], err = appendJSON(nil, kindEnd, end{Stdout: 1}); err != nil {
		t.Fatal(err)
	}
	all["request"] = append(appendPart(appendPart(nil, 2, []byte("{}")), 4, []byte("code")), "stdin"...)
	return all
}

// Messages are encoded as the first release encoded them, and its messages can be parsed.
// If this test fails the wire format has changed; nodes of the previous release must still
// be understood. A new kind of message gets a new line.
func TestTheWireFormatIsUnchanged(t *testing.T) {
	const file = "testdata/wire-1"
	now := written(t)
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(now)) {
		fmt.Fprintf(&lines, "%s = %q\n", name, now[name])
	}
	if *writeGolden {
		if err := os.WriteFile(file, []byte(lines.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if lines.String() != string(b) {
		t.Errorf("the wire has changed:\n%s\nwas\n%s", lines.String(), b)
	}
	old := map[string][]byte{}
	for line := range strings.Lines(string(b)) {
		name, quoted, _ := strings.Cut(strings.TrimSpace(line), " = ")
		text, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		old[name] = []byte(text)
	}
	for name, want := range messages("a \"text\"\u2028\x00é <&>") {
		reads(t, name, old[name], want)
	}
	for name, want := range items() {
		part, rest, err := cutPart(old[name])
		if err != nil || len(rest) > 0 {
			t.Fatalf("%s: %d bytes left, %v", name, len(rest), err)
		}
		if got, err := decodeItem(part); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v, %v", name, got, err)
		}
	}
}

// reads fails unless both JSON parsers give the wanted result for a message.
func reads(t *testing.T, name string, message []byte, want any) {
	t.Helper()
	written, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	for reader, read := range map[string]func([]byte, any) error{"standard": json.Unmarshal, "fast": func(b []byte, v any) error { return fastjson.Unmarshal(b, v) }} {
		got := reflect.New(reflect.TypeOf(want).Elem())
		if err := read(message, got.Interface()); err != nil {
			t.Errorf("%s, %s: %v", name, reader, err)
		}
		if b, err := json.Marshal(got.Interface()); err != nil || string(b) != string(written) {
			t.Errorf("%s, %s: %.300s is read as %.300s, %v", name, reader, message, b, err)
		}
	}
}

// A newer node may send unknown fields, which are ignored, and events of unknown kinds,
// which are passed on. An unknown kind of part is a protocol error, so a newer node must
// not send one to an older node.
func TestMessagesOfANewerNode(t *testing.T) {
	for name, want := range messages("a \"text\"\u2028\x00é <&>") {
		b, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		more := append([]byte(`{"of_the_next":[{"a":1}]`), b[1:]...)
		if len(b) > len("{}") {
			more = append([]byte(`{"of_the_next":[{"a":1}],`), b[1:]...)
		}
		reads(t, name+" with one field more", more, want)
	}
	event := surfaces.Event{Kind: "of_the_next", Text: "what it says"}
	message, err := appendItem(nil, calls.Item{Event: &event, Next: calls.Mark{Span: 1, At: 1}})
	if err != nil {
		t.Fatal(err)
	}
	part, _, err := cutPart(message)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decodeItem(part); err != nil || !reflect.DeepEqual(*got.Event, event) {
		t.Errorf("an event of another kind: %+v, %v", got, err)
	}
	part[0] = kindEnd + 1
	if got, err := decodeItem(part); !errors.Is(err, mesh.ErrProtocol) {
		t.Errorf("a part of another kind: %+v, %v", got, err)
	}
}
