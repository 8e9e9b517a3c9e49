package audit

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// written makes a log of several files once, and returns the lines of each and the head.
var written = sync.OnceValues(func() ([][][]byte, Head) {
	dir, err := os.MkdirTemp("", "locus-audit-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	l, err := Open(Config{Dir: dir, Node: "node-a", MaxBytes: MinBytes, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	for i := range 40 {
		l.Add(Entry{Kind: CallStarted, Actor: "actor", CallID: fmt.Sprint("call-", i), Thought: strings.Repeat("why ", 1500)})
		l.Flush()
	}
	head, err := l.Close()
	if err != nil {
		panic(err)
	}
	list, err := segments(dir)
	if err != nil || len(list) < 3 {
		panic(fmt.Sprint(list, err))
	}
	var files [][][]byte
	for _, s := range list {
		text, err := os.ReadFile(pathOf(dir, s.first))
		if err != nil {
			panic(err)
		}
		files = append(files, bytes.SplitAfter(bytes.TrimSuffix(text, []byte("\n")), []byte("\n")))
		last := files[len(files)-1]
		last[len(last)-1] = append(slices.Clone(last[len(last)-1]), '\n')
	}
	return files, head
})

// writeLog writes the files of a log to a directory.
func writeLog(t *rapid.T, dir string, files [][][]byte) {
	first := uint64(1)
	for _, lines := range files {
		if err := os.WriteFile(pathOf(dir, first), bytes.Join(lines, nil), 0o600); err != nil {
			t.Fatal(err)
		}
		first += uint64(len(lines))
	}
}

// If any line is changed, removed, duplicated or moved, this is detected, and the first line
// that is wrong is named.
func TestEveryChangeOfALineIsDetected(t *testing.T) {
	files, head := written()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "locus-audit-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		writeLog(t, dir, files)
		if r, err := Verify(t.Context(), dir, head); err != nil || r.Fault != nil || r.Head != head {
			t.Fatalf("as it was written: %+v %v", r, err)
		}
		var all [][]byte
		for _, lines := range files {
			all = append(all, lines...)
		}
		mine := slices.Clone(all)
		n := rapid.IntRange(0, len(mine)-1).Draw(t, "line")
		first := n // the first line that differs
		switch what := rapid.SampledFrom([]string{"change", "insert", "remove", "swap", "double", "forge"}).Draw(t, "what"); what {
		case "change":
			line := slices.Clone(mine[n])
			at := rapid.IntRange(0, len(line)-1).Draw(t, "at")
			to := rapid.Byte().Filter(func(b byte) bool { return b != line[at] }).Draw(t, "to")
			line[at] = to
			mine[n] = line
		case "insert":
			line := slices.Clone(mine[n])
			at := rapid.IntRange(0, len(line)-1).Draw(t, "at")
			mine[n] = slices.Insert(line, at, rapid.Byte().Draw(t, "byte"))
			if bytes.Equal(bytes.ReplaceAll(mine[n], []byte("\n"), nil), bytes.ReplaceAll(all[n], []byte("\n"), nil)) {
				return // an empty line there changes no entry
			}
		case "remove":
			mine = slices.Delete(mine, n, n+1)
		case "swap":
			other := rapid.IntRange(0, len(mine)-1).Filter(func(i int) bool { return i != n }).Draw(t, "other")
			mine[n], mine[other] = mine[other], mine[n]
			first = min(n, other)
		case "double":
			mine = slices.Insert(mine, n, mine[n])
			first = n + 1
		case "forge": // with a hash that fits it, but not the next line
			at := genesis
			if n > 0 {
				got, _ := unseal(all[n-1])
				at = got.head
			}
			line, _, err := seal(nil, at, Entry{Kind: CallStarted, Actor: "somebody else"})
			if err != nil {
				t.Fatal(err)
			}
			mine[n] = line
		}
		// Each file has as many lines as before, the last one has the rest.
		var changed [][][]byte
		for i, lines := range files {
			k := min(len(lines), len(mine))
			if i == len(files)-1 {
				k = len(mine)
			}
			changed = append(changed, mine[:k])
			mine = mine[k:]
		}
		writeLog(t, dir, changed)
		r, err := Verify(t.Context(), dir, head)
		if err != nil {
			t.Fatal(err)
		}
		if r.Fault == nil {
			t.Fatalf("not found: %+v", r)
		}
		if got := r.Fault.Seq; got != uint64(first)+1 && r.Fault.Kind != FaultCut && r.Fault.Kind != FaultMoved {
			t.Fatalf("entry %d is named (%+v), it was %d", got, *r.Fault, first+1)
		}
	})
}

// A chain that was rebuilt, or cut off at its end, is detected by comparing it with a
// witnessed head.
func TestAWitnessedHeadDetectsARebuiltChain(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	for range 5 {
		l.Add(Entry{Kind: CallStarted, Actor: "a"})
	}
	seen := closeLog(t, l)
	l = open(t, dir)
	l.Add(Entry{Kind: CallStarted, Actor: "a"})
	closeLog(t, l)
	whole, err := os.ReadFile(pathOf(dir, 1))
	if err != nil {
		t.Fatal(err)
	}
	all := bytes.SplitAfter(bytes.TrimSuffix(whole, []byte("\n")), []byte("\n"))

	cut := bytes.Join(all[:4], nil)
	change(t, pathOf(dir, 1), func([]byte) []byte { return cut })
	verified(t, dir) // which is why other nodes witness heads
	if r, err := Verify(t.Context(), dir, seen); err != nil || r.Fault == nil || r.Fault.Kind != FaultCut || r.Fault.Seq != 5 {
		t.Fatalf("got %+v, %v, want the fault %v at entry 5", r, err, FaultCut)
	}

	got, _ := unseal(all[2])
	forged, at := bytes.Join(all[:3], nil), got.head
	for range 3 {
		if forged, at, err = seal(forged, at, Entry{Kind: CallStarted, Actor: "b"}); err != nil {
			t.Fatal(err)
		}
	}
	change(t, pathOf(dir, 1), func([]byte) []byte { return forged })
	verified(t, dir)
	if r, err := Verify(t.Context(), dir, seen); err != nil || r.Fault == nil || r.Fault.Kind != FaultRewritten || r.Fault.Seq != 5 {
		t.Fatalf("got %+v, %v, want the fault %v at entry 5", r, err, FaultRewritten)
	}
	other := Head{seen.Seq, strings.Repeat("a", 64)}
	if r, err := Verify(t.Context(), dir, seen, other); err != nil || r.Fault == nil || r.Fault.Kind != FaultRewritten {
		t.Fatalf("two who disagree: %+v %v", r, err)
	}
}

func TestHeads(t *testing.T) {
	h := Head{17, strings.Repeat("0f", 32)}
	if got, err := ParseHead(h.String()); err != nil || got != h {
		t.Errorf("got %v, %v, want %v", got, err, h)
	}
	for _, bad := range []string{"", "1", "x:" + h.Hash, "0:" + h.Hash, "1:" + strings.Repeat("0F", 32), "1:00", "-1:" + h.Hash} {
		if _, err := ParseHead(bad); err == nil {
			t.Errorf("%q is a head", bad)
		}
	}
	if r := verified(t, filepath.Join(t.TempDir(), "none")); r.Entries != 0 || r.Head != genesis {
		t.Errorf("a log that is not there: %+v", r)
	}
}

// Arbitrary bytes are either rejected or parsed as a valid entry.
func FuzzUnseal(f *testing.F) {
	line, _, err := seal(nil, genesis, Entry{Kind: CallStarted, Actor: "a"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Add([]byte(`{"seq":1,"prev":"`))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, line []byte) {
		got, ok := unseal(line)
		if !ok {
			return
		}
		if again, _, good := numbered(line); !good || again != got.head.Seq || chained(got.prev, line[:len(line)-tailLen-1]) != got.head.Hash {
			t.Errorf("%q is taken for %+v", line, got)
		}
	})
}
