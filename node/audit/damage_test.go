package audit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// An incomplete last write is reported and kept, and the chain continues after it.
func TestATornEnd(t *testing.T) {
	for name, c := range map[string]struct {
		torn  string
		fault bool // before the log is opened again
	}{
		"a part of a line":     {`{"seq":6,"prev":"`, false},
		"nothing but zeros":    {strings.Repeat("\x00", 5000), false},
		"lines that are none":  {"x\ny\n", true},
		"a part after a line":  {"x\n{", true},
		"longer than any line": {strings.Repeat("x", 3*MaxLine), true},
	} {
		t.Run(name, func(t *testing.T) {
			torn := c.torn
			dir := t.TempDir()
			l := open(t, dir)
			for range 5 {
				l.Add(Entry{Kind: CallStarted})
			}
			head := closeLog(t, l)
			appendTo(t, pathOf(dir, 1), torn)
			before, err := Verify(t.Context(), dir)
			if err != nil || before.Unfinished != int64(len(torn)) || (before.Fault != nil) != c.fault {
				t.Fatalf("got %+v, %v, want %d unfinished bytes, fault: %v", before, err, len(torn), c.fault)
			}
			for range 2 { // the second time there is nothing left to cut
				l = open(t, dir)
				l.Add(Entry{Kind: CallEnded})
				closeLog(t, l)
			}
			r := verified(t, dir, head)
			if r.Cuts != 1 || r.Entries != 8 || r.Unfinished != 0 {
				t.Fatalf("got %+v, want 8 entries with 1 cut and nothing unfinished", r)
			}
			text, err := os.ReadFile(pathOf(dir, 1))
			if err != nil || !strings.Contains(string(text), torn) {
				t.Errorf("what was there is gone: %v", err)
			}
			// A change of the part that was cut is detected.
			change(t, pathOf(dir, 1), func(b []byte) []byte { return []byte(strings.Replace(string(b), torn, torn+"!", 1)) })
			if r, err := Verify(t.Context(), dir); err != nil || r.Fault == nil {
				t.Errorf("got %+v, %v, want a fault", r, err)
			}
		})
	}
}

func appendTo(t testing.TB, path, text string) {
	t.Helper()
	change(t, path, func(b []byte) []byte { return append(b, text...) })
}

func change(t testing.TB, path string, how func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, how(b), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A log that cannot be written blocks nobody. The lost entries are counted, and logged when
// writing succeeds again.
func TestALogThatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	l := open(t, dir)
	l.Add(Entry{Kind: CallStarted})
	l.Flush()
	away := dir + ".away"
	if err := errors.Join(os.Rename(dir, away), os.WriteFile(dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	thought := strings.Repeat("x", 16<<10)
	for range 2 * maxHeld / len(thought) {
		l.Add(Entry{Kind: CallStarted, Thought: thought})
	}
	l.Flush()
	s := l.State()
	if s.Failing == nil || s.Lost == 0 || s.Head.Seq != 1 || s.Since.IsZero() {
		t.Fatalf("got %+v, want a failing log with lost entries after entry 1", s)
	}
	if err := errors.Join(os.Remove(dir), os.Rename(away, dir)); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for l.State().Failing != nil {
		if time.Now().After(deadline) {
			t.Fatal("it does not go on")
		}
		time.Sleep(10 * time.Millisecond) // between two checks
	}
	lost := l.State().Lost
	l.Add(Entry{Kind: CallEnded})
	closeLog(t, l)
	if r := verified(t, dir); r.Lost != lost || r.Entries != 1+uint64(2*maxHeld/len(thought))-uint64(lost)+2 {
		t.Fatalf("got %+v, want %d lost and all other entries", r, lost)
	}
}

// The removal of a file that is being written is detected.
func TestAFileIsRemovedWhileItIsWritten(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	l.Add(Entry{Kind: CallStarted})
	l.Flush()
	if err := os.Remove(pathOf(dir, 1)); err != nil {
		t.Fatal(err)
	}
	l.Add(Entry{Kind: CallEnded})
	if page := read(t, l, Filter{}); len(page.Entries) != 1 || page.Entries[0].Seq != 2 {
		t.Fatalf("got %+v, want entry 2 alone", page)
	}
	closeLog(t, l)
	if r, err := Verify(t.Context(), dir); err != nil || r.Fault == nil || r.Fault.Kind != FaultRemoved || r.Fault.Seq != 1 {
		t.Fatalf("got %+v, %v, want entry 1 reported as removed", r, err)
	}
}
