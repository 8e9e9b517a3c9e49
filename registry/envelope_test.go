package registry

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/locusrun/locus/surfaces"
)

// spoil returns an envelope with one thing changed.
func spoil(t *testing.T, c command, change func(*envelope)) []byte {
	t.Helper()
	e, err := decodeEnvelope(entry(t, 77, c).Data)
	if err != nil {
		t.Fatal(err)
	}
	change(&e)
	return e.encode()
}

func TestInvalidCommandsChangeNothing(t *testing.T) {
	good := CloseSession{Key: key("ada", 1)}
	for name, c := range map[string]struct {
		data []byte
		want verdict
	}{
		"unknown kind":     {spoil(t, good, func(e *envelope) { e.kind = 200 }), unsupported},
		"kind 0":           {spoil(t, good, func(e *envelope) { e.kind = 0 }), unsupported},
		"later level":      {spoil(t, good, func(e *envelope) { e.level = level + 1 }), unsupported},
		"level 0":          {spoil(t, good, func(e *envelope) { e.level = 0 }), malformed},
		"no request":       {spoil(t, good, func(e *envelope) { e.request = RequestID{} }), malformed},
		"no time":          {spoil(t, good, func(e *envelope) { e.at = 0 }), malformed},
		"no payload":       {spoil(t, good, func(e *envelope) { e.payload = nil }), malformed},
		"not JSON":         {spoil(t, good, func(e *envelope) { e.payload = []byte("{") }), malformed},
		"two payloads":     {spoil(t, good, func(e *envelope) { e.payload = append(e.payload, "{}"...) }), malformed},
		"unknown field":    {spoil(t, good, func(e *envelope) { e.payload = []byte(`{"key":{},"more":1}`) }), malformed},
		"another's fields": {spoil(t, good, func(e *envelope) { e.kind = kindRegisterNode }), malformed},
		"out of bounds":    {spoil(t, good, func(e *envelope) { e.payload = []byte(`{"key":{"Actor":""}}`) }), malformed},
		"too long":         {append(spoil(t, good, func(*envelope) {}), bytes.Repeat([]byte(" "), MaxCommand)...), malformed},
		"empty":            {nil, malformed},
		"short":            {[]byte("locus"), malformed},
	} {
		f := seeded(t)
		claim(t, f, key("ada", 1), "x")
		sessions, requests := f.view().Sessions(), len(f.m.window.order)
		got := f.m.Apply(&raft.Log{Index: f.index + 1, Data: c.data}).(reply)
		want(t, name, got.verdict, c.want)
		if !reflect.DeepEqual(f.view().Sessions(), sessions) || len(f.m.window.order) != requests {
			t.Errorf("%s changed the state", name)
		}
	}
}

func TestCommandsOutOfBoundsAreRefused(t *testing.T) {
	long := strings.Repeat("x", maxText+1)
	k := key("ada", 1)
	for name, c := range map[string]command{
		"NUL in a name":     ClaimSession{Key: k, Name: "a\x00b", Owner: "n1", Incarnation: 1},
		"65 characters":     ClaimSession{Key: k, Name: strings.Repeat("é", maxName+1), Owner: "n1", Incarnation: 1},
		"bad UTF-8":         RenameSession{Key: k, Name: "\xff"},
		"NUL in an actor":   CloseSession{Key: key("a\x00", 1)},
		"no language":       CloseSession{Key: surfaces.SessionKey{Actor: "ada", ID: 1}},
		"negative id":       CloseSession{Key: key("ada", -1)},
		"no owner":          ClaimSession{Key: k, Incarnation: 1},
		"no life":           ClaimSession{Key: k, Owner: "n1"},
		"half a grant":      CloseSession{Key: k, Grant: Grant{Node: "n1"}},
		"no reason":         MarkLost{Key: k, Grant: Grant{"n1", 1, 1}},
		"no epoch":          RebuildSession{Key: k, Owner: "n1", Incarnation: 1},
		"no node":           RegisterNode{},
		"long address":      RegisterNode{ID: "n1", Addr: long},
		"empty label":       RegisterNode{ID: "n1", Labels: map[string]string{"": "x"}},
		"unknown state":     MarkNode{ID: "n1", Incarnation: 1, State: "asleep"},
		"no hash":           AddActorToken{Name: "ada", Token: "secret"},
		"upper case hash":   AddActorToken{Name: "ada", Token: TokenHash(strings.Repeat("A", 64))},
		"no actor id":       CreateActor{Name: "ada"},
		"no public key":     CreateToken{ID: "t", Role: "node", NotAfter: 1, MaxUses: 1},
		"no uses":           CreateToken{ID: "t", Public: "k", Role: "node", NotAfter: 1},
		"no end":            CreateToken{ID: "t", Public: "k", Role: "node", MaxUses: 1},
		"no key":            UseToken{ID: "t", Node: "n1"},
		"no node to give":   UseToken{ID: "t", Key: HashToken("k")},
		"no token":          RevokeToken{},
		"no identity":       RevokeIdentity{Until: 1},
		"no roots":          SetTrust{Phase: "steady"},
		"huge root":         SetTrust{Phase: "steady", Roots: [][]byte{make([]byte, maxRoot+1)}},
		"empty key":         SetGossipKeys{Keys: [][]byte{nil}},
		"no node to drain":  DrainNode{},
		"label's NUL":       LabelNode{ID: "n1", Labels: map[string]string{"a": "\x00"}},
		"no node to remove": RemoveNode{},
		"key without call":  ReserveKey{Actor: "ada", Key: "k", Digest: "d", Home: "n1"},
		"negative capacity": RegisterNode{ID: "n1", Capacity: Capacity{CPUs: -1}},
		"empty language":    RegisterNode{ID: "n1", Languages: []string{""}},
		"too many touches":  TouchSessions{Owner: "n1", Incarnation: 1, Touches: make([]Touch, MaxTouches+1)},
		"no text":           AddVenv{Name: "x", Digest: string(HashToken("x")), CreatedBy: "a"},
		"long text":         AddVenv{Name: "x", Text: strings.Repeat("x", MaxVenvText+1), Digest: string(HashToken("x")), CreatedBy: "a"},
		"no digest":         AddVenv{Name: "x", Text: "x", CreatedBy: "a"},
		"environment 0":     RemoveVenv{},
		"long lock":         RecordBuild{ID: 1, Node: "n1", Lock: make([]byte, MaxLock+1)},
		"build of no node":  DropBuild{ID: 1},
		"function's dash":   PutFunction{Name: "a-b", Source: "x", Entry: "f", Digest: string(HashToken("x")), CreatedBy: "a"},
		"function's digit":  RemoveFunction{Name: "1"},
		"long source":       PutFunction{Name: "f", Source: strings.Repeat("x", MaxSource+1), Entry: "f", Digest: string(HashToken("x")), CreatedBy: "a"},
		"two ways":          PutServer{Actor: "ada", Name: "s", Command: []string{"x"}, URL: "http://x"},
		"no way":            PutServer{Actor: "ada", Name: "s"},
		"empty command":     PutServer{Actor: "ada", Name: "s", Command: []string{""}},
		"empty variable":    PutServer{Actor: "ada", Name: "s", Command: []string{"x"}, Env: map[string]string{"": "x"}},
		"no server":         RemoveServer{Actor: "ada"},
		"no machine":        LinkMachine{Token: "t", Name: "x"},
		"long name":         LinkMachine{ID: "m", Token: "t", Name: long},
		"met by nobody":     ConnectMachine{ID: "m"},
		"seventeen words":   ConnectMachine{ID: "m", Hub: "n1", HubIncarnation: 1, Facts: MachineFacts{Languages: make([]string, maxLanguages+1)}},
		"parted by no life": DisconnectMachine{ID: "m", Hub: "n1"},
		"no end of trust":   UnlinkMachine{ID: "m", URI: "u"},
		"level of initials": initCluster{ID: "m"},
	} {
		if _, err := encodeCommand(c, Proposal{Request: RequestID{1}, At: 1}, level); !errors.Is(err, errBounds) {
			t.Errorf("%s: %v", name, err)
		}
		// The machine does not trust the proposer either.
		payload, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		f := seeded(t)
		data := envelope{level, c.kind(), RequestID{1}, 1, payload}.encode()
		if got := f.m.Apply(&raft.Log{Index: 9, Data: data}).(reply); got.verdict != malformed && name != "bad UTF-8" {
			t.Errorf("%s: verdict %d", name, got.verdict)
		}
	}
}

func TestResentCommandGetsItsRecordedOutcome(t *testing.T) {
	f := seeded(t)
	c := ClaimSession{Key: key("ada", 1), Name: "x", Owner: "n1", Incarnation: 1}
	c.Request = RequestID{7}
	first := do[ClaimOutcome](t, f, c)
	do[CloseOutcome](t, f, CloseSession{Key: c.Key})
	c.At = 99 // a resend may be proposed at another time
	want(t, "resent", do[ClaimOutcome](t, f, c), first)
	_, there := f.view().Session(c.Key)
	want(t, "the resend changed something", there, false)

	node := RegisterNode{ID: "n2"}
	node.Request = RequestID{8}
	life := do[RegisterOutcome](t, f, node)
	want(t, "a life is counted once", do[RegisterOutcome](t, f, node), life)

	other := c
	other.Name = "y"
	f.index++
	want(t, "other payload", f.m.Apply(entry(t, f.index, other)).(reply).verdict, reused)
	f.index++
	want(t, "other kind", f.m.Apply(entry(t, f.index, EndActor{Name: "ada", Proposal: Proposal{Request: c.Request}})).(reply).verdict, reused)

	// The window is counted in log indexes, whatever they hold.
	at := first.Session.Epoch
	f.index = uint64(at) + RequestWindow - 2
	want(t, "last moment", do[ClaimOutcome](t, f, c), first)
	fresh := do[ClaimOutcome](t, f, c)
	want(t, "after the window", fresh.Session.Epoch, Epoch(uint64(at)+RequestWindow))
	if n := len(f.m.window.order); n > RequestWindow {
		t.Errorf("%d requests are remembered", n)
	}
}

func TestAPanicInACommandChangesNothing(t *testing.T) {
	specs[201] = specOf[faulty, initOutcome]()
	defer delete(specs, 201)
	f := seeded(t)
	before := f.view()
	got := f.m.Apply(entry(t, f.index+1, faulty{})).(reply)
	want(t, "verdict", got.verdict, faulted)
	want(t, "nodes", len(f.view().Nodes()), len(before.Nodes()))
	claim(t, &feed{m: f.m, index: f.index + 1}, key("ada", 1), "") // and the machine goes on
}

// faulty is a command that changes something and then panics.
type faulty struct{ Proposal }

func (faulty) kind() kind    { return 201 }
func (faulty) bounds() error { return nil }
func (faulty) apply(t tables, _ moment) any {
	t.put(tableNodes, &Node{ID: "half"})
	t.put("no such table", 1)
	return nil
}

// FuzzApply feeds arbitrary bytes to two machines: no panic, the same answer, the
// same state, and a state that survives its snapshot.
func FuzzApply(f *testing.F) {
	for i, c := range goldenCommands() {
		e := envelope{level: level, kind: c.kind(), request: RequestID{1}, at: 1}
		e.payload, _ = json.Marshal(c)
		f.Add(e.encode(), uint64(i+1))
	}
	f.Fuzz(func(t *testing.T, data []byte, index uint64) {
		a, b := seeded(t), seeded(t)
		claim(t, a, key("ada", 1), "x")
		claim(t, b, key("ada", 1), "x")
		index = a.index + 1 + index%(1<<40)
		got, again := a.m.Apply(&raft.Log{Index: index, Data: data}), b.m.Apply(&raft.Log{Index: index, Data: data})
		if !reflect.DeepEqual(got, again) {
			t.Fatalf("%+v and %+v", got, again)
		}
		if got.(reply).verdict == faulted {
			t.Fatalf("a fault")
		}
		if a.hash() != b.hash() {
			t.Fatalf("states differ")
		}
		if restored(t, snapshotOf(t, a.m)).freeze().hash() != a.hash() {
			t.Fatalf("the snapshot differs")
		}
	})
}

// FuzzFrames reads arbitrary bytes as the records of a snapshot, with a right sum
// behind them: an error, or a state that writes and reads back the same. (Bytes
// mutated in a compressed stream would never come past its own checksum.)
func FuzzFrames(f *testing.F) {
	s := seeded(f)
	claim(f, s, key("ada", 1), "x")
	var plain bytes.Buffer
	w := &frameWriter{to: &plain, sum: sha256.New()}
	w.state(s.m.freeze())
	f.Add(plain.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		end := &frameWriter{to: bytes.NewBuffer(bytes.Clone(data)), sum: sha256.New()}
		sum := sha256.Sum256(data)
		end.frame(frameEnd, sum[:])
		r := &frameReader{from: bufio.NewReader(end.to.(*bytes.Buffer)), sum: sha256.New(), db: newState(), window: newWindow()}
		if err := r.all(); err != nil {
			return
		}
		m := newMachine(slog.New(slog.DiscardHandler), level)
		m.reset(r.db, r.window, r.index)
		if restored(t, snapshotOf(t, m)).freeze().hash() != m.freeze().hash() {
			t.Fatalf("the snapshot differs")
		}
	})
}
