package registry

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"reflect"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"
)

func snapshotOf(t tb, m *machine) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := m.freeze().write(&b); err != nil {
		t.Fatalf("write: %v", err)
	}
	return b.Bytes()
}

// restored is a machine that held something else before.
func restored(t tb, snapshot []byte) *machine {
	t.Helper()
	m := newMachine(slog.New(slog.DiscardHandler), level)
	m.Apply(entry(t, 1, CreateActor{Name: "left over", ID: "x"}))
	if err := m.Restore(io.NopCloser(bytes.NewReader(snapshot))); err != nil {
		t.Fatalf("restore: %v", err)
	}
	return m
}

func hashOf(r *frameReader) [32]byte {
	m := newMachine(slog.New(slog.DiscardHandler), level)
	m.reset(r.db, r.window, r.index)
	return m.freeze().hash()
}

// At every prefix of a history: snapshot, restore, and the state is the same; and
// from there on the restored machine answers every later command alike.
func TestRestoreAtEveryPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type step struct {
			entry  *raft.Log
			answer reply
		}
		var steps []step
		var copies []*machine
		original := newFeed()
		take := func(c command) {
			original.index++
			e := entry(t, original.index, c)
			if len(steps) > 0 && rapid.IntRange(0, 9).Draw(t, "resend") == 0 {
				e = &raft.Log{Index: original.index, Data: rapid.SampledFrom(steps).Draw(t, "earlier").entry.Data}
			}
			answer := original.m.Apply(e).(reply)
			for i, m := range copies {
				if got := m.Apply(e).(reply); !reflect.DeepEqual(got, answer) {
					t.Fatalf("the copy from prefix %d answers entry %d with\n%+v\nnot\n%+v", i, e.Index, got, answer)
				}
			}
			copies = append(copies, restored(t, snapshotOf(t, original.m)))
			for i, m := range copies {
				if m.freeze().hash() != original.hash() {
					t.Fatalf("the copy from prefix %d differs after entry %d", i, e.Index)
				}
			}
			steps = append(steps, step{e, answer})
		}
		take(initCluster{ID: "mesh", Level: level})
		take(RegisterNode{ID: "n1", Labels: map[string]string{"b": "1", "a": "2", "c": "<é>"}, Addr: "[::1]:9"})
		take(RegisterNode{ID: "n2"})
		take(CreateActor{Name: "ada", ID: "id", Token: HashToken("t")})
		m := newModel() // only to draw commands that meet
		for _, s := range steps {
			e, err := decodeEnvelope(s.entry.Data)
			if err != nil {
				t.Fatalf("%v", err)
			}
			if c, err := specs[e.kind].command(e.payload); err == nil && e.kind != kindInitCluster {
				m.do(c, s.entry.Index, e.at)
			}
		}
		for range rapid.IntRange(1, 10).Draw(t, "steps") {
			w := world{t, m}
			c := rapid.SampledFrom([]func() command{w.command, w.command, w.shelf, w.machines}).Draw(t, "which")()
			take(c)
			m.do(c, original.index, Timestamp(1000*original.index))
		}
	})
}

// Replicas that are fed the same entries are equal, garbage included.
func TestReplicasAreEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replicas := []*machine{newFeed().m, newFeed().m, newFeed().m}
		var entries []*raft.Log
		history(t, 60, func(f *feed, _ *model, c command, _ any) { entries = append(entries, entry(t, f.index, c)) })
		for index := uint64(1); index <= uint64(len(entries)); index++ {
			e := &raft.Log{Index: index, Data: entries[index-1].Data}
			if rapid.IntRange(0, 4).Draw(t, "spoil") == 0 {
				e.Data = bytes.Clone(e.Data)
				e.Data[rapid.IntRange(0, len(e.Data)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 255).Draw(t, "by"))
			}
			first := replicas[0].Apply(e)
			for _, r := range replicas[1:] {
				if got := r.Apply(e); !reflect.DeepEqual(got, first) {
					t.Fatalf("entry %d: %+v and %+v", index, got, first)
				}
			}
		}
		for _, r := range replicas[1:] {
			if r.freeze().hash() != replicas[0].freeze().hash() {
				t.Fatalf("replicas differ")
			}
		}
	})
}

func TestSnapshotThatIsNotWholeIsRefused(t *testing.T) {
	f := seeded(t)
	claim(t, f, key("ada", 1), "x")
	whole := snapshotOf(t, f.m)
	before := f.hash()
	refuse := func(what string, at int, snapshot []byte) {
		t.Helper()
		if err := f.m.Restore(io.NopCloser(bytes.NewReader(snapshot))); !errors.Is(err, ErrSnapshot) {
			t.Fatalf("%s at %d of %d: %v", what, at, len(whole), err)
		}
		if f.hash() != before {
			t.Fatalf("%s at %d changed the state", what, at)
		}
	}
	for cut := range whole {
		refuse("cut", cut, whole[:cut])
	}
	for at := range whole {
		spoilt := bytes.Clone(whole)
		spoilt[at] ^= 0x40
		if g, err := readSnapshot(bytes.NewReader(spoilt), level); err == nil && hashOf(g) == before {
			continue // a bit that zstd gives no meaning
		}
		refuse("flip", at, spoilt)
	}
	refuse("more", len(whole), append(bytes.Clone(whole), 0))
	refuse("twice", len(whole), append(bytes.Clone(whole), whole...))
}

// What a later version may write must not be half read.
func TestSnapshotOfALaterVersionIsRefused(t *testing.T) {
	body := func(write func(w *frameWriter)) []byte {
		b := bytes.NewBufferString(snapshotMagic + string(rune(snapshotVersion)))
		z, err := zstd.NewWriter(b, zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		w := &frameWriter{to: z, sum: sha256.New()}
		write(w)
		w.frame(frameEnd, w.sum.Sum(nil))
		if err := errors.Join(w.err, z.Close()); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	for name, write := range map[string]func(w *frameWriter){
		"unknown frame": func(w *frameWriter) { w.record(frameHead, head{1}); w.frame(99, []byte("{}")) },
		"unknown field": func(w *frameWriter) { w.frame(frameHead, []byte(`{"index":1,"more":2}`)) },
		"no head":       func(w *frameWriter) { w.record(frameCluster, cluster{ID: "m", Level: 1}) },
		"no level":      func(w *frameWriter) { w.record(frameHead, head{1}); w.record(frameCluster, cluster{ID: "m"}) },
		"bad session":   func(w *frameWriter) { w.record(frameHead, head{1}); w.record(frameSession, Session{}) },
		"unknown kind": func(w *frameWriter) {
			w.record(frameHead, head{1})
			w.record(frameRequest, request{Kind: 200, Outcome: []byte("1")})
		},
		"missing record": func(w *frameWriter) { w.record(frameHead, head{1}); w.sum.Write([]byte("a record")) },
		"frame too long": func(w *frameWriter) {
			w.record(frameHead, head{1})
			w.to.Write([]byte{byte(frameNode), 0xff, 0xff, 0xff, 0x7f})
		},
	} {
		if _, err := readSnapshot(bytes.NewReader(body(write)), level); !errors.Is(err, ErrSnapshot) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if g, err := readSnapshot(bytes.NewReader(body(func(w *frameWriter) { w.record(frameHead, head{7}) })), level); err != nil || g.index != 7 {
		t.Errorf("an empty state: %v", err)
	}
}
