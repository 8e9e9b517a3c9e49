package registry

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// said is a message of a node, with the function that reads it.
type said struct {
	name  string
	bytes []byte
	read  func([]byte) (any, error)
	as    any
}

func saidJSON[T any](t *testing.T, name string, v T) said {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return said{name, b, func(b []byte) (any, error) {
		var v T
		err := json.Unmarshal(b, &v)
		return v, err
	}, v}
}

// sayings returns one message of every kind.
func sayings(t *testing.T) []said {
	t.Helper()
	var all []said
	for name, c := range map[string]call{
		"1 a command": {opCommand, 0, []byte("body")}, "2 a read index": {opReadIndex, 1, []byte{}}, "3 a change of members": {opMember, 0, []byte(`{"id":"n1"}`)},
		"4 a probe": {opProbe, 0, []byte{}}, "5 a renewal": {opRenew, 0, []byte("{}")},
	} {
		all = append(all, said{"request " + name, c.encode(), func(b []byte) (any, error) { return decodeCall(b) }, c})
	}
	for name, a := range map[string]answer{
		"1 done": {status: statusDone, body: []byte("body")}, "2 elsewhere": {status: statusNotLeader, body: []byte("n2")},
	} {
		all = append(all, said{"reply " + name, a.encode(), func(b []byte) (any, error) { return decodeAnswer(b) }, a})
	}
	for name, a := range map[string]answer{
		"3 later": {status: statusRetry, body: []byte("why")}, "4 unknown": {status: statusUnknown, body: []byte("why")},
		"5 refused, malformed": refuse(refusedMalformed), "5 refused, unsupported": refuse(refusedUnsupported),
		"5 refused, forbidden": refuse(refusedForbidden), "5 refused, the last voter": refuse(refusedLastVoter),
	} {
		all = append(all, said{"reply " + name, a.encode(), func(b []byte) (any, error) {
			got, err := decodeAnswer(b)
			return fmt.Sprint(got.status, string(got.body)), err
		}, fmt.Sprint(a.status, string(a.body))})
	}
	sent := commandRequest{since: 258, resent: true, command: []byte("command")}
	all = append(all, said{"command", sent.encode(), func(b []byte) (any, error) { return decodeCommandRequest(b) }, sent})
	for name, r := range map[string]commandResult{
		"accepted": {513, reply{verdict: accepted, outcome: AckOutcome{Result: TellLoss, Loss: Loss{Reason: LossTimeout, At: 7, Epoch: 8, Told: true}}}},
		"reused":   {513, reply{verdict: reused}},
	} {
		b, err := r.encode()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, said{"result, " + name, b, func(b []byte) (any, error) { return decodeCommandResult(b, kindAckLoss) }, r})
	}
	load := Load{Running: 1, Sessions: 2, MemoryBytes: 3, NoSessions: true, NoCalls: true, Trust: 4}
	return append(all,
		saidJSON(t, "a change of members", memberChange{ID: "n1", Remove: true}),
		saidJSON(t, "a probe's answer", probeReply{Applied: 5, Term: 6}),
		saidJSON(t, "a read index's answer", readIndex{Index: 7}),
		saidJSON(t, "a renewal", renewal{ID: "n1", Incarnation: 2, Applied: 9, Load: load, Stopped: true}),
		saidJSON(t, "a renewal's answer", renewed{Fenced: true, TTL: 5 * time.Second, Loads: map[NodeID]Load{"n1": load}}),
	)
}

// What nodes say to one another is written as the first release wrote it, and what
// that one wrote is read. When this fails the wire has changed: a node of the release
// before must still be understood. A new kind of message gets a new line.
func TestTheWireFormatIsUnchanged(t *testing.T) {
	const file = "testdata/wire-1"
	var lines []string
	for _, s := range sayings(t) {
		lines = append(lines, fmt.Sprintf("%s: %q", s.name, s.bytes))
	}
	slices.Sort(lines)
	if *writeGolden {
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "what this release says", strings.Join(lines, "\n"), strings.TrimSpace(string(b)))
	old := map[string]string{}
	for line := range strings.Lines(string(b)) {
		name, quoted, _ := strings.Cut(strings.TrimSpace(line), ": ")
		text, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		old[name] = text
	}
	for _, s := range sayings(t) {
		got, err := s.read([]byte(old[s.name]))
		if err != nil || !reflect.DeepEqual(got, s.as) {
			t.Errorf("%s is read as %+v, %v", s.name, got, err)
		}
	}
}

// A newer node may say more of what it says, and that is passed over; what it says in
// another version, or asks for that nobody here does, is refused.
func TestMessagesOfANewerNode(t *testing.T) {
	for _, s := range sayings(t) {
		if s.bytes[0] != '{' {
			continue
		}
		got, err := s.read(append([]byte(`{"of_the_next":[{"a":1}],`), s.bytes[1:]...))
		if err != nil || !reflect.DeepEqual(got, s.as) {
			t.Errorf("%s with one field more is read as %+v, %v", s.name, got, err)
		}
	}
	if _, err := decodeCall([]byte{wireVersion + 1, byte(opProbe), 0}); err == nil {
		t.Error("a request of another version is read")
	}
	if _, err := decodeAnswer([]byte{wireVersion + 1, byte(statusDone)}); err == nil {
		t.Error("a reply of another version is read")
	}
	r := open(t, Config{Dir: t.TempDir()})
	life := peopled(t, r)
	for what, c := range map[string]struct {
		call call
		want answer
	}{
		"an operation that nobody here knows": {call{op: opRenew + 1}, refuse(refusedUnsupported)},
		"a renewal with more in it": {call{op: opRenew, body: fmt.Appendf(nil, `{"id":"n1","life":%d,"applied":0,"load":{"mood":"good"},"more":1}`, life)},
			answer{status: statusDone}},
		"a member with more said of it": {call{op: opMember, body: []byte(`{"id":"n1","zone":"a"}`)}, answer{status: statusDone}},
	} {
		b, err := r.Serve(within60(t), "n1", c.call.encode())
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		got, err := decodeAnswer(b)
		if err != nil || got.status != c.want.status || c.want.status == statusRefused && string(got.body) != string(c.want.body) {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
}
