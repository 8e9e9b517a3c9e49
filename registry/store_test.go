package registry

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"
)

func openTestStore(t *testing.T, path string) *store {
	t.Helper()
	s, err := openStore(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestStoreKeepsWhatRaftStores(t *testing.T) {
	path := filepath.Join(t.TempDir(), "raft.db")
	s := openTestStore(t, path)
	for what, get := range map[string]func() (uint64, error){"first": s.FirstIndex, "last": s.LastIndex} {
		if got, err := get(); got != 0 || err != nil {
			t.Fatalf("%s of an empty log: %d, %v", what, got, err)
		}
	}
	if err := s.GetLog(1, &raft.Log{}); !errors.Is(err, raft.ErrLogNotFound) {
		t.Fatalf("absent entry: %v", err)
	}
	if v, err := s.Get([]byte("x")); len(v) != 0 || err != nil {
		t.Fatalf("absent value: %q, %v", v, err)
	}
	entries := []*raft.Log{
		{Index: 5, Term: 2, Type: raft.LogConfiguration, Data: []byte("a"), Extensions: []byte("ext"), AppendedAt: time.Unix(0, 12345)},
		{Index: 6, Term: 3, Type: raft.LogNoop},
		{Index: 7, Term: 3, Data: make([]byte, 100_000)},
	}
	if err := errors.Join(s.StoreLogs(entries), s.SetUint64([]byte("term"), 9), s.Set([]byte("who"), []byte("n1"))); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = openTestStore(t, path)
	for _, e := range entries {
		var got raft.Log
		if err := s.GetLog(e.Index, &got); err != nil {
			t.Fatal(err)
		}
		if got.Index != e.Index || got.Term != e.Term || got.Type != e.Type || string(got.Data) != string(e.Data) ||
			string(got.Extensions) != string(e.Extensions) || !got.AppendedAt.Equal(e.AppendedAt) {
			t.Fatalf("got %+v, want %+v", got, e)
		}
	}
	term, err := s.GetUint64([]byte("term"))
	if term != 9 || err != nil {
		t.Fatalf("term %d, %v", term, err)
	}
	if _, err := s.GetUint64([]byte("who")); !errors.Is(err, ErrDamaged) {
		t.Fatalf("a text as a number: %v", err)
	}
}

func TestStoreRefusesAGapAndThenEverything(t *testing.T) {
	s := openTestStore(t, filepath.Join(t.TempDir(), "raft.db"))
	if err := s.StoreLog(&raft.Log{Index: 1}); err != nil {
		t.Fatal(err)
	}
	if err := s.StoreLog(&raft.Log{Index: 3}); !errors.Is(err, errGap) {
		t.Fatalf("gap: %v", err)
	}
	if err := s.StoreLog(&raft.Log{Index: 2}); !errors.Is(err, errGap) {
		t.Fatalf("a write after a failed one: %v", err)
	}
	if s.healthy() == nil {
		t.Fatal("the store says that it is healthy")
	}
	if last, err := s.LastIndex(); last != 1 || err != nil {
		t.Fatalf("last %d, %v", last, err)
	}
}

// Every bit of what is on the disk counts.
func TestStoreSeesEveryFlippedBit(t *testing.T) {
	e := raft.Log{Index: 7, Term: 3, Data: []byte("data"), Extensions: []byte("ext"), AppendedAt: time.Unix(5, 0)}
	entry, value := encodeEntry(&e), sealValue(raftTerm, []byte{0, 0, 0, 0, 0, 0, 0, 9})
	for bit := range 8 * len(entry) {
		spoilt := bytes.Clone(entry)
		spoilt[bit/8] ^= 1 << (bit % 8)
		if err := decodeEntry(spoilt, 7, &raft.Log{}); !errors.Is(err, ErrDamaged) {
			t.Fatalf("bit %d of an entry: %v", bit, err)
		}
	}
	for bit := range 8 * len(value) {
		spoilt := bytes.Clone(value)
		spoilt[bit/8] ^= 1 << (bit % 8)
		if _, err := openValue(raftTerm, spoilt); !errors.Is(err, ErrDamaged) {
			t.Fatalf("bit %d of a value: %v", bit, err)
		}
	}
	for cut := range entry {
		if err := decodeEntry(entry[:cut], 7, &raft.Log{}); !errors.Is(err, ErrDamaged) {
			t.Fatalf("entry cut at %d: %v", cut, err)
		}
	}
	if err := decodeEntry(entry, 8, &raft.Log{}); !errors.Is(err, ErrDamaged) {
		t.Fatalf("an entry in another's place: %v", err)
	}
	if _, err := openValue(raftVoteTerm, value); !errors.Is(err, ErrDamaged) {
		t.Fatalf("a value in another's place: %v", err)
	}
}

func TestStoreIsLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "raft.db")
	s := openTestStore(t, path)
	if _, err := openStore(path); !errors.Is(err, ErrLocked) {
		t.Fatalf("second opening: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	openTestStore(t, path)
}

// Appends and cuts at either end, as raft makes them, against a slice.
func TestStoreAgainstASlice(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		path := filepath.Join(dir, "raft.db")
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		s, err := openStore(path)
		if err != nil {
			t.Fatal(err)
		}
		s.db.NoSync = true
		var kept []uint64
		next := uint64(rapid.IntRange(1, 300).Draw(t, "start"))
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch n := rapid.IntRange(0, 200).Draw(t, "n"); rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				var entries []*raft.Log
				for range n {
					entries = append(entries, &raft.Log{Index: next, Term: 1, Data: []byte{byte(next)}})
					kept = append(kept, next)
					next++
				}
				err = s.StoreLogs(entries)
			case 1: // compaction
				n = min(n, len(kept))
				if n > 0 {
					err = s.DeleteRange(kept[0], kept[n-1])
					kept = kept[n:]
				}
			case 2: // a new leader's other history
				n = min(n, len(kept))
				if n > 0 {
					err = s.DeleteRange(kept[len(kept)-n], kept[len(kept)-1]+7)
					kept = kept[:len(kept)-n]
					next -= uint64(n)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = openStore(path); err != nil { // verifies the log
			t.Fatal(err)
		}
		defer s.Close()
		var got []uint64
		first, _ := s.FirstIndex()
		last, _ := s.LastIndex()
		for i := first; i <= last && i > 0; i++ {
			var e raft.Log
			if err := s.GetLog(i, &e); err != nil || e.Data[0] != byte(i) {
				t.Fatalf("entry %d: %v", i, err)
			}
			got = append(got, i)
		}
		if len(got)+len(kept) > 0 && !reflect.DeepEqual(got, kept) {
			t.Fatalf("got %v, want %v", got, kept)
		}
	})
}

// tornFile is a log file of many pages with n entries.
func tornFile(t *testing.T, n int) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "raft.db")
	s := openTestStore(t, path)
	s.db.NoSync = true
	for i := 1; i <= n; i++ {
		if err := s.StoreLog(&raft.Log{Index: uint64(i), Term: 1, Data: make([]byte, 300)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.SetUint64(raftTerm, 1), s.setBegan(), s.setNode("n1"), s.Close()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// However the file is cut, opening it neither crashes nor shows a log with less
// in it; an empty file is a new one.
func TestStoreCutShort(t *testing.T) {
	whole := tornFile(t, 100)
	path := filepath.Join(t.TempDir(), "raft.db")
	refused := 0
	for cut := 1; cut < len(whole); cut += 509 {
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := openStore(path)
		if errors.Is(err, ErrDamaged) {
			refused++
			continue
		}
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		first, _ := s.FirstIndex()
		last, _ := s.LastIndex()
		if first != 1 || last != 100 { // free pages at the end may be missing
			t.Fatalf("cut at %d: a log from %d to %d was accepted", cut, first, last)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if refused == 0 {
		t.Fatal("no cut was refused")
	}
}

// Damage in the middle is refused, or falls on bytes that are not in use.
func TestStoreOverwritten(t *testing.T) {
	whole := tornFile(t, 40)
	path := filepath.Join(t.TempDir(), "raft.db")
	refused := 0
	for at := 0; at+64 < len(whole); at += 331 {
		spoilt := append([]byte(nil), whole...)
		for i := range 64 {
			spoilt[at+i] ^= 0xa5
		}
		if err := os.WriteFile(path, spoilt, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := openStore(path)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("at %d: %v", at, err)
			}
			refused++
			continue
		}
		last, _ := s.LastIndex()
		// One damaged head page is what bbolt keeps two of them for: the state is then
		// the transaction before, which differs in who the file belongs to.
		if last != 40 {
			t.Fatalf("at %d: a log that ends at %d was accepted", at, last)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if refused == 0 {
		t.Fatal("no damage was refused")
	}
}

// bbolt writes new pages, syncs, and then writes one of its two heads. A crash
// leaves any part of the new pages without the head, or a torn head: either way
// the file opens with everything that was promised before.
func TestStoreOverAnUnfinishedWrite(t *testing.T) {
	const page = 4096
	dir := t.TempDir()
	path := filepath.Join(dir, "raft.db")
	s := openTestStore(t, path)
	read := func() []byte {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	draw := rand.New(rand.NewPCG(1, 2))
	for i := uint64(1); i <= 60; i++ {
		before := read()
		if err := s.StoreLog(&raft.Log{Index: i, Term: 1, Data: make([]byte, 300)}); err != nil {
			t.Fatal(err)
		}
		after := read()
		torn := append(slices.Clone(before), make([]byte, len(after)-len(before))...)
		for at := 2 * page; at < len(after); at += page {
			if draw.IntN(2) == 0 {
				copy(torn[at:], after[at:at+draw.IntN(page+1)])
			}
		}
		lastIs(t, dir, torn, i-1)

		copy(torn[2*page:], after[2*page:])
		for head := 0; head < 2*page; head += page {
			if !bytes.Equal(before[head:head+page], after[head:head+page]) {
				copy(torn[head:head+50], after[head:])
			}
		}
		lastIs(t, dir, torn, i-1)
		lastIs(t, dir, after, i)
	}
}

func lastIs(t *testing.T, dir string, content []byte, last uint64) {
	t.Helper()
	path := filepath.Join(dir, "crashed.db")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := openStore(path)
	if err != nil {
		t.Fatalf("before entry %d: %v", last+1, err)
	}
	if got, err := s.LastIndex(); got != last || err != nil {
		t.Fatalf("the log ends at %d, want %d: %v", got, last, err)
	}
	// And it can be written to.
	if err := errors.Join(s.StoreLog(&raft.Log{Index: last + 1}), s.Close()); err != nil {
		t.Fatal(err)
	}
}
