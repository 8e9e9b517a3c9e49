package registry

import (
	"encoding/binary"
	"log/slog"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/locusrun/locus/surfaces"
)

// tb is the common part of testing.T and rapid.T.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
}

// feed applies commands to a machine, as the log does.
type feed struct {
	m     *machine
	index uint64
	later Timestamp // what has passed beside a microsecond per entry
}

func newFeed() *feed { return &feed{m: newMachine(slog.New(slog.DiscardHandler), level)} }

// entry makes the log entry of a command at an index; the request id is of the
// index unless the command has one.
func entry(t tb, index uint64, c command) *raft.Log {
	t.Helper()
	return entryAt(t, index, Timestamp(1000*index), c)
}

func entryAt(t tb, index uint64, at Timestamp, c command) *raft.Log {
	t.Helper()
	p := c.proposal()
	if p.At == 0 {
		p.At = at
	}
	if p.Request == (RequestID{}) {
		binary.BigEndian.PutUint64(p.Request[8:], index)
	}
	data, err := encodeCommand(c, p, 1) // which a mesh of any level accepts
	if err != nil {
		t.Fatalf("encode %#v: %v", c, err)
	}
	return &raft.Log{Index: index, Term: 1, Data: data}
}

// do applies one command and gives its outcome.
func do[O any](t tb, f *feed, c command) O {
	t.Helper()
	f.index++
	answer := f.m.Apply(entryAt(t, f.index, f.later+Timestamp(1000*f.index), c)).(reply)
	if answer.verdict != accepted {
		t.Fatalf("%#v: verdict %d", c, answer.verdict)
	}
	return answer.outcome.(O)
}

func (f *feed) view() View { return View{f.m.now.Load()} }

func (f *feed) hash() [32]byte { return f.m.freeze().hash() }

// seeded is a machine with an identity, nodes n1 and n2 in their first lives, and
// the actor ada.
func seeded(t tb) *feed {
	t.Helper()
	return seededAt(t, level)
}

// seededAt is seeded in a mesh of a feature level.
func seededAt(t tb, level uint8) *feed {
	t.Helper()
	f := newFeed()
	do[initOutcome](t, f, initCluster{ID: "mesh", Level: level})
	for _, id := range []NodeID{"n1", "n2"} {
		do[RegisterOutcome](t, f, RegisterNode{ID: id, Name: string(id), Addr: "127.0.0.1:1", Labels: map[string]string{"zone": "z"}})
	}
	do[CreateActorOutcome](t, f, CreateActor{Name: "ada", ID: "actor-1", Token: HashToken("secret")})
	return f
}

func key(actor string, id int) surfaces.SessionKey {
	return surfaces.SessionKey{Actor: actor, Language: surfaces.Python, ID: id}
}

// claim claims a new session for n1 and requires that it gets it.
func claim(t tb, f *feed, k surfaces.SessionKey, name string) Session {
	t.Helper()
	out := do[ClaimOutcome](t, f, ClaimSession{Key: k, Name: name, Owner: "n1", Incarnation: 1})
	if out.Result != Claimed {
		t.Fatalf("claim of %v: %+v", k, out)
	}
	return out.Session
}

func want[T comparable](t *testing.T, what string, got, expected T) {
	t.Helper()
	if got != expected {
		t.Fatalf("%s: got %+v, want %+v", what, got, expected)
	}
}
