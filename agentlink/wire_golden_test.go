package agentlink

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
	"time"

	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/surfaces"
)

var writeGolden = flag.Bool("write-golden", false, "write the file of the wire anew")

// messages are the JSON messages between machines and nodes, with every field set. Renewed
// certificates are not among them: their format belongs to package certs.
func messages() map[string]any {
	facts := Facts{OS: "linux", Arch: "amd64", Version: "1", Languages: []string{"python", "sh"}, Consent: "asks"}
	run := &program{
		Actor: "ada", Thought: "why", Language: surfaces.Python, Code: "1", Stdin: "in", Timeout: time.Second,
		Files: []surfaces.File{surfaces.NewFile("a.txt", []byte("text"))}, Primitives: true,
	}
	nodes := []mesh.NodeAddr{{ID: "n1", Addr: "[::1]:7"}}
	asks := claim{CallID: "call_1", Home: "n1", Need: true}
	return map[string]any{
		"attach: hello":          &hello{Protocol: protocol, Facts: facts},
		"attach: welcome":        &welcome{Name: "laptop", Actor: "ada", Node: "n1", Nodes: nodes},
		"attach: offer":          &offer{CallID: "call_1", Home: "n1", Program: run},
		"attach: offer, whole":   &offer{CallID: "call_1", Home: "n1", Program: &program{Language: surfaces.Python, Code: "1", Timeout: time.Second, Whole: 2 * time.Second}},
		"call: claim":            &asks,
		"call: opened":           &claimReply{Next: 3, Program: run},
		"call: word":             &control{Answer: &answer{Use: 2, Answer: json.RawMessage(`{"b":2}`)}, Stop: true, Done: true},
		"renew: renewal":         &renewRequest{SPKI: []byte{1, 2}},
		"offer: offered":         &offerRequest{Machine: "m1", Offer: offer{CallID: "call_1", Home: "n1"}},
		"offer: told":            &offerReply{Sent: true, Busy: true},
		"relay: relayed":         &relayHeader{Machine: "m1", Claim: asks},
		"body of an item: a use": &use{Seq: "1", Name: "files.read", Data: json.RawMessage(`{"a":1}`)},
	}
}

// items are the items of a call's report, by name.
func items() map[string]item {
	return map[string]item{
		"item: started": {kind: itemStarted, number: 1, body: []byte{}},
		"item: stdout":  {kind: itemStdout, number: 300, offset: 301, body: []byte("text")},
		"item: stderr":  {kind: itemStderr, number: 3, offset: 0, body: []byte{0xff}},
		"item: event":   {kind: itemEvent, number: 4, body: []byte("{}")},
		"item: use":     {kind: itemUse, number: 5, body: []byte("{}")},
		"item: end":     {kind: itemEnd, number: 6, body: []byte("{}")},
	}
}

// Messages are encoded as the first release encoded them, and its messages can be parsed.
// If this test fails the wire format has changed, and machines are upgraded last. A new
// kind of message gets a new line.
func TestTheWireFormatIsUnchanged(t *testing.T) {
	const file = "testdata/wire-1"
	now := map[string][]byte{}
	for name, v := range messages() {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		now[name] = b
	}
	for name, it := range items() {
		now[name] = it.encode()
	}
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
	for name, want := range messages() {
		reads(t, name, old[name], want)
	}
	for name, want := range items() {
		if got, err := decodeItem(old[name]); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v, %v", name, got, err)
		}
	}
}

// reads fails unless a message is parsed to the wanted value.
func reads(t *testing.T, name string, message []byte, want any) {
	t.Helper()
	got := reflect.New(reflect.TypeOf(want).Elem())
	if err := json.Unmarshal(message, got.Interface()); err != nil || !reflect.DeepEqual(got.Interface(), want) {
		t.Errorf("%s: %s is read as %+v, %v", name, message, got.Elem(), err)
	}
}

// Another release may send unknown fields, which are ignored. An item of an unknown kind is
// an error.
func TestMessagesOfANewerRelease(t *testing.T) {
	for name, want := range messages() {
		b, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		reads(t, name+" with one field more", append([]byte(`{"of_the_next":[{"a":1}],`), b[1:]...), want)
	}
	it := item{kind: itemEnd + 1, number: 1}
	if got, err := decodeItem(it.encode()); !errors.Is(err, mesh.ErrProtocol) {
		t.Errorf("an item of another kind: %+v, %v", got, err)
	}
}
