package audit

import (
	"os"
	"strings"
	"testing"
	"time"
)

// smallest makes files of 64 KiB.
func smallest(c *Config) { c.MaxBytes = MinBytes }

// A log consists of many files, of which the oldest are removed; the rest is verified as
// complete, and says what was removed.
func TestOldFilesAreDropped(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, smallest)
	long := strings.Repeat("x", 8<<10)
	for range 300 { // 2.4 MiB
		l.Add(Entry{Kind: CallStarted, Thought: long})
		l.Flush() // the writer checks between writes whether a file is full
	}
	head := closeLog(t, l)
	list, err := segments(dir)
	if err != nil {
		t.Fatal(err)
	}
	var size int64
	for _, s := range list {
		size += s.size
	}
	if len(list) < 10 || size > MinBytes+MinBytes/16 {
		t.Fatalf("got %d files of %d bytes, want at least 10 of at most %d", len(list), size, MinBytes+MinBytes/16)
	}
	r := verified(t, dir, head)
	if r.First == 1 || r.First != r.Dropped+1 || r.Head != head {
		t.Fatalf("got %+v, want head %v and a first entry after those that were dropped", r, head)
	}
	// Removing another file is detected.
	if err := os.Remove(pathOf(dir, list[0].first)); err != nil {
		t.Fatal(err)
	}
	if r, err := Verify(t.Context(), dir); err != nil || r.Fault == nil || r.Fault.Kind != FaultRemoved {
		t.Fatalf("got %+v, %v, want the fault %v", r, err, FaultRemoved)
	}
}

func TestOldEntriesAreDropped(t *testing.T) {
	dir := t.TempDir()
	age := func(c *Config) { c.MaxAge = time.Hour }
	l := open(t, dir, age)
	l.Add(Entry{Kind: CallStarted})
	closeLog(t, l)
	long := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(pathOf(dir, 1), long, long); err != nil {
		t.Fatal(err)
	}
	l = open(t, dir, age)
	l.Add(Entry{Kind: CallStarted})
	closeLog(t, l) // the entries of one file stay together
	if r := verified(t, dir); r.Entries != 2 {
		t.Fatalf("got %+v, want 2 entries", r)
	}
	l = open(t, dir, func(c *Config) { c.MaxAge = time.Nanosecond }) // every entry is too old at once
	for range 2 {
		l.Add(Entry{Kind: CallStarted})
		l.Flush()
	}
	l.Maintain()
	l.Add(Entry{Kind: CallStarted})
	closeLog(t, l)
	if r := verified(t, dir); r.First < 3 || r.Dropped != r.First-1 {
		t.Fatalf("got %+v, want at least 2 entries dropped, and all before the first reported as dropped", r)
	}
}
