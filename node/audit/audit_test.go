package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/locusrun/locus/surfaces"
)

func open(t testing.TB, dir string, change ...func(*Config)) *Log {
	t.Helper()
	cfg := Config{Dir: dir, Node: "node-a", Log: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&cfg)
	}
	l, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = l.Close() }) // again: the tests close what they look at
	return l
}

func closed(t testing.TB, l *Log) Head {
	t.Helper()
	head, err := l.Close()
	if err != nil {
		t.Fatal(err)
	}
	return head
}

// sound verifies a log that must have no fault.
func sound(t testing.TB, dir string, seen ...Head) Report {
	t.Helper()
	r, err := Verify(t.Context(), dir, seen...)
	if err != nil {
		t.Fatal(err)
	}
	if r.Fault != nil {
		t.Fatalf("%+v: %+v", r, *r.Fault)
	}
	return r
}

func read(t testing.TB, l *Log, f Filter) Page {
	t.Helper()
	page, err := l.Read(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// small makes files of 64 KiB.
func small(c *Config) { c.MaxBytes = MinBytes }

func TestALogIsKeptOverItsEnds(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	for i := range 10 {
		l.Add(Entry{What: CallStarted, Actor: fmt.Sprint("actor-", i%2), CallID: fmt.Sprint("call-", i)})
	}
	page := read(t, l, Filter{Actor: "actor-1"})
	if len(page.Entries) != 5 || page.More || page.Entries[0].CallID != "call-1" || page.Entries[0].Seq != 2 || page.Entries[0].Node != "node-a" {
		t.Fatalf("%+v", page)
	}
	first := closed(t, l)
	l.Add(Entry{What: CallEnded}) // nobody waits for it
	if r := sound(t, dir, first); r.Entries != 10 || r.First != 1 || r.Head != first || r.Seen != 1 || r.Node != "node-a" {
		t.Fatalf("%+v", r)
	}

	l = open(t, dir)
	l.Add(Entry{What: CallEnded, CallID: "call-9"})
	second := closed(t, l)
	if r := sound(t, dir, first, second); r.Entries != 11 || second.Seq != 11 {
		t.Fatalf("%+v", r)
	}
	list, err := segments(dir)
	if err != nil || len(list) != 1 {
		t.Fatalf("%v %v", list, err)
	}
	if info, err := os.Stat(pathOf(dir, 1)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

func TestFilters(t *testing.T) {
	l := open(t, t.TempDir())
	for i := range 300 {
		l.Add(Entry{What: []What{CallStarted, CallEnded}[i%2], Actor: fmt.Sprint("a", i%3), CallID: fmt.Sprint("c", i/2)})
	}
	all := read(t, l, Filter{Limit: 1000}).Entries
	if len(all) != 300 {
		t.Fatalf("%d entries", len(all))
	}
	for i := 1; i < len(all); i++ {
		if !all[i].At.After(all[i-1].At) || all[i].Prev != all[i-1].Hash {
			t.Fatalf("entry %d does not come after the one before", i)
		}
	}
	for name, c := range map[string]struct {
		f    Filter
		n    int
		more bool
	}{
		"all":      {Filter{}, DefaultLimit, true},
		"a call":   {Filter{CallID: "c7"}, 2, false},
		"what":     {Filter{What: CallEnded, Limit: 150}, 150, false},
		"both":     {Filter{What: CallEnded, CallID: "c7"}, 1, false},
		"from":     {Filter{From: all[290].At}, 10, false},
		"until":    {Filter{Until: all[10].At}, 10, false},
		"between":  {Filter{From: all[10].At, Until: all[20].At, Limit: 9}, 9, true},
		"an actor": {Filter{Actor: "a1", Limit: 7}, 7, true},
		"nobody":   {Filter{Actor: `a"1`}, 0, false},
	} {
		page := read(t, l, c.f)
		if len(page.Entries) != c.n || page.More != c.more {
			t.Errorf("%s: %d entries, more %v", name, len(page.Entries), page.More)
		}
	}
	if last := read(t, l, Filter{Actor: "a1", Limit: 1}).Entries; len(last) != 1 || last[0].Seq != 299 {
		t.Errorf("%+v", last)
	}
}

// What was not written to its end is told, and stays; the chain goes on.
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
				l.Add(Entry{What: CallStarted})
			}
			head := closed(t, l)
			appendTo(t, pathOf(dir, 1), torn)
			before, err := Verify(t.Context(), dir)
			if err != nil || before.Unfinished != int64(len(torn)) || (before.Fault != nil) != c.fault {
				t.Fatalf("%+v %v", before, err)
			}
			for range 2 { // the second time there is nothing more to be cut
				l = open(t, dir)
				l.Add(Entry{What: CallEnded})
				closed(t, l)
			}
			r := sound(t, dir, head)
			if r.Cuts != 1 || r.Entries != 8 || r.Unfinished != 0 {
				t.Fatalf("%+v", r)
			}
			text, err := os.ReadFile(pathOf(dir, 1))
			if err != nil || !strings.Contains(string(text), torn) {
				t.Errorf("what was there is gone: %v", err)
			}
			// Who writes into what was cut is found out.
			change(t, pathOf(dir, 1), func(b []byte) []byte { return []byte(strings.Replace(string(b), torn, torn+"!", 1)) })
			if r, err := Verify(t.Context(), dir); err != nil || r.Fault == nil {
				t.Errorf("%+v %v", r, err)
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

// A log is many files, of which the oldest go; what is left is whole, and says so.
func TestOldFilesAreDropped(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, small)
	long := strings.Repeat("x", 8<<10)
	for range 300 { // 2.4 MiB
		l.Add(Entry{What: CallStarted, Thought: long})
		l.Flush() // the writer sees when a file is full between its writes
	}
	head := closed(t, l)
	list, err := segments(dir)
	if err != nil {
		t.Fatal(err)
	}
	var size int64
	for _, s := range list {
		size += s.size
	}
	if len(list) < 10 || size > MinBytes+MinBytes/16 {
		t.Fatalf("%d files of %d bytes", len(list), size)
	}
	r := sound(t, dir, head)
	if r.First == 1 || r.First != r.Dropped+1 || r.Head != head {
		t.Fatalf("%+v", r)
	}
	// Who drops more than that is found out.
	if err := os.Remove(pathOf(dir, list[0].first)); err != nil {
		t.Fatal(err)
	}
	if r, err := Verify(t.Context(), dir); err != nil || r.Fault == nil || r.Fault.Kind != FaultRemoved {
		t.Fatalf("%+v %v", r, err)
	}
}

func TestOldEntriesAreDropped(t *testing.T) {
	dir := t.TempDir()
	age := func(c *Config) { c.MaxAge = time.Hour }
	l := open(t, dir, age)
	l.Add(Entry{What: CallStarted})
	closed(t, l)
	long := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(pathOf(dir, 1), long, long); err != nil {
		t.Fatal(err)
	}
	l = open(t, dir, age)
	l.Add(Entry{What: CallStarted})
	closed(t, l) // the entries of one file stay together
	if r := sound(t, dir); r.Entries != 2 {
		t.Fatalf("%+v", r)
	}
	l = open(t, dir, func(c *Config) { c.MaxAge = time.Nanosecond }) // each entry is old at once
	for range 2 {
		l.Add(Entry{What: CallStarted})
		l.Flush()
	}
	l.Tend()
	l.Add(Entry{What: CallStarted})
	closed(t, l)
	if r := sound(t, dir); r.First < 3 || r.Dropped != r.First-1 {
		t.Fatalf("%+v", r)
	}
}

// What cannot be written stops nobody, is counted, and told when it can be written again.
func TestALogThatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	l := open(t, dir)
	l.Add(Entry{What: CallStarted})
	l.Flush()
	away := dir + ".away"
	if err := errors.Join(os.Rename(dir, away), os.WriteFile(dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	thought := strings.Repeat("x", 16<<10)
	for range 2 * maxHeld / len(thought) {
		l.Add(Entry{What: CallStarted, Thought: thought})
	}
	l.Flush()
	s := l.State()
	if s.Failing == nil || s.Lost == 0 || s.Head.Seq != 1 || s.Since.IsZero() {
		t.Fatalf("%+v", s)
	}
	if err := errors.Join(os.Remove(dir), os.Rename(away, dir)); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for l.State().Failing != nil {
		if time.Now().After(deadline) {
			t.Fatal("it does not go on")
		}
		time.Sleep(10 * time.Millisecond) // between two looks
	}
	lost := l.State().Lost
	l.Add(Entry{What: CallEnded})
	closed(t, l)
	if r := sound(t, dir); r.Lost != lost || r.Entries != 1+uint64(2*maxHeld/len(thought))-uint64(lost)+2 {
		t.Fatalf("%+v with %d lost", r, lost)
	}
}

// A file that somebody removes under the writer is missed.
func TestAFileIsRemovedWhileItIsWritten(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	l.Add(Entry{What: CallStarted})
	l.Flush()
	if err := os.Remove(pathOf(dir, 1)); err != nil {
		t.Fatal(err)
	}
	l.Add(Entry{What: CallEnded})
	if page := read(t, l, Filter{}); len(page.Entries) != 1 || page.Entries[0].Seq != 2 {
		t.Fatalf("%+v", page)
	}
	closed(t, l)
	if r, err := Verify(t.Context(), dir); err != nil || r.Fault == nil || r.Fault.Kind != FaultRemoved || r.Fault.Seq != 1 {
		t.Fatalf("%+v %v", r, err)
	}
}

func TestALongEntryIsClipped(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	name := strings.Repeat("n", 1000)
	many := make([]string, 1000)
	for i := range many {
		many[i] = name
	}
	l.Add(Entry{What: CallEnded, SessionName: &name, Target: name, Thought: "why", StateDiff: &surfaces.StateDiff{Added: many}})
	l.Add(Entry{What: CallEnded, Thought: "why", StateDiff: &surfaces.StateDiff{Added: many, Changed: many, Removed: many}})
	l.Add(Entry{What: CallEnded, Thought: strings.Repeat("\x01", 64<<10)})
	page := read(t, l, Filter{})
	if e := page.Entries[0]; !e.Clipped || len(e.StateDiff.Added) != maxNames || len(*e.SessionName) != maxText || len(e.Target) != maxText || e.Thought != "why" {
		t.Errorf("%d names", len(e.StateDiff.Added))
	}
	for _, e := range page.Entries[1:] {
		if !e.Clipped || e.StateDiff != nil || e.Thought != "" {
			t.Errorf("entry %d is as long as it was", e.Seq)
		}
	}
	closed(t, l)
	sound(t, dir)
}

func TestManyAtATimeAndReadersWhoFollow(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, func(c *Config) { c.MaxBytes = 8 << 20 }) // two files
	l.Add(Entry{What: CallStarted, Actor: "before"})
	const writers, each = 8, 300
	seen := make(chan Entry, writers*each+2)
	ctx, enough := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		err := l.Follow(ctx, Filter{}, 0, func(e Entry) error {
			seen <- e
			if e.Seq == writers*each+1 {
				enough()
			}
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	before := <-seen
	seen <- before
	var adding sync.WaitGroup
	for w := range writers {
		adding.Go(func() {
			for i := range each {
				l.Add(Entry{What: CallEnded, Actor: fmt.Sprint("w", w), CallID: fmt.Sprint(i), Thought: strings.Repeat("t", 100)})
			}
		})
	}
	adding.Wait()
	all.Wait()
	var last Entry
	next := map[string]int{}
	for range writers*each + 1 {
		e := <-seen
		if e.Seq != last.Seq+1 || last.Seq > 0 && e.Prev != last.Hash {
			t.Fatalf("after entry %d came %d", last.Seq, e.Seq)
		}
		if e.Actor != "before" {
			if e.CallID != fmt.Sprint(next[e.Actor]) {
				t.Fatalf("%s: %s came, not %d", e.Actor, e.CallID, next[e.Actor])
			}
			next[e.Actor]++
		}
		last = e
	}
	// Who comes back later has all that came after what he knows.
	after, left := uint64(100), writers*each+1-100
	stop := errors.New("enough")
	err := l.Follow(t.Context(), Filter{Limit: 1}, after, func(e Entry) error {
		if after++; e.Seq != after {
			t.Errorf("got %d, not %d", e.Seq, after)
		}
		if left--; left == 0 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) {
		t.Error(err)
	}
	closed(t, l)
	if r := sound(t, dir); r.Entries != writers*each+1 {
		t.Fatalf("%+v", r)
	}
}

func BenchmarkAdd(b *testing.B) {
	l := open(b, b.TempDir())
	e := Entry{
		What: CallEnded, Actor: "planner", CallID: "call_0193f8a0-0000-7000-8000-000000000000", Language: surfaces.Python, StateMode: surfaces.Stateful,
		Surface: surfaces.Local, Status: surfaces.StatusDone, Attempts: 1, DurationMS: 0.4, RanOn: "node-a",
	}
	for b.Loop() {
		l.Add(e)
	}
	l.Flush()
}
