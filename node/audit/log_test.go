package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"

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
	t.Cleanup(func() { _, _ = l.Close() }) // once more: the tests close logs before they verify them
	return l
}

func closeLog(t testing.TB, l *Log) Head {
	t.Helper()
	head, err := l.Close()
	if err != nil {
		t.Fatal(err)
	}
	return head
}

// verified verifies a log that must have no fault.
func verified(t testing.TB, dir string, seen ...Head) Report {
	t.Helper()
	r, err := Verify(t.Context(), dir, seen...)
	if err != nil {
		t.Fatal(err)
	}
	if r.Fault != nil {
		t.Fatalf("got %+v with fault %+v, want none", r, *r.Fault)
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

func TestALogIsContinuedAfterClose(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	for i := range 10 {
		l.Add(Entry{Kind: CallStarted, Actor: fmt.Sprint("actor-", i%2), CallID: fmt.Sprint("call-", i)})
	}
	page := read(t, l, Filter{Actor: "actor-1"})
	if len(page.Entries) != 5 || page.More || page.Entries[0].CallID != "call-1" || page.Entries[0].Seq != 2 || page.Entries[0].Node != "node-a" {
		t.Fatalf("got %+v, want all 5 entries of actor-1, the first of them entry 2", page)
	}
	first := closeLog(t, l)
	l.Add(Entry{Kind: CallEnded}) // nobody waits for it
	if r := verified(t, dir, first); r.Entries != 10 || r.First != 1 || r.Head != first || r.Seen != 1 || r.Node != "node-a" {
		t.Fatalf("got %+v, want 10 entries of node-a from 1 to head %v, which was seen", r, first)
	}

	l = open(t, dir)
	l.Add(Entry{Kind: CallEnded, CallID: "call-9"})
	second := closeLog(t, l)
	if r := verified(t, dir, first, second); r.Entries != 11 || second.Seq != 11 {
		t.Fatalf("got %+v with head %v, want 11 entries", r, second)
	}
	list, err := segments(dir)
	if err != nil || len(list) != 1 {
		t.Fatalf("got files %v, %v, want one", list, err)
	}
	if info, err := os.Stat(pathOf(dir, 1)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v, want -rw-------", info.Mode(), err)
	}
}

func TestFilters(t *testing.T) {
	l := open(t, t.TempDir())
	for i := range 300 {
		l.Add(Entry{Kind: []Kind{CallStarted, CallEnded}[i%2], Actor: fmt.Sprint("a", i%3), CallID: fmt.Sprint("c", i/2)})
	}
	all := read(t, l, Filter{Limit: 1000}).Entries
	if len(all) != 300 {
		t.Fatalf("got %d entries, want 300", len(all))
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
		"what":     {Filter{Kind: CallEnded, Limit: 150}, 150, false},
		"both":     {Filter{Kind: CallEnded, CallID: "c7"}, 1, false},
		"from":     {Filter{From: all[290].At}, 10, false},
		"until":    {Filter{Until: all[10].At}, 10, false},
		"between":  {Filter{From: all[10].At, Until: all[20].At, Limit: 9}, 9, true},
		"an actor": {Filter{Actor: "a1", Limit: 7}, 7, true},
		"nobody":   {Filter{Actor: `a"1`}, 0, false},
	} {
		page := read(t, l, c.f)
		if len(page.Entries) != c.n || page.More != c.more {
			t.Errorf("%s: got %d entries, more %v, want %d, more %v", name, len(page.Entries), page.More, c.n, c.more)
		}
	}
	if last := read(t, l, Filter{Actor: "a1", Limit: 1}).Entries; len(last) != 1 || last[0].Seq != 299 {
		t.Errorf("got %+v, want entry 299", last)
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
	l.Add(Entry{Kind: CallEnded, SessionName: &name, Target: name, Thought: "why", StateDiff: &surfaces.StateDiff{Added: many}})
	l.Add(Entry{Kind: CallEnded, Thought: "why", StateDiff: &surfaces.StateDiff{Added: many, Changed: many, Removed: many}})
	l.Add(Entry{Kind: CallEnded, Thought: strings.Repeat("\x01", 64<<10)})
	page := read(t, l, Filter{})
	if e := page.Entries[0]; !e.Clipped || len(e.StateDiff.Added) != maxNames || len(*e.SessionName) != maxText || len(e.Target) != maxText || e.Thought != "why" {
		t.Errorf("got %d names, session name of %d, target of %d, thought %q, clipped %v; want %d, %d, %d, \"why\", true", len(e.StateDiff.Added), len(*e.SessionName), len(e.Target), e.Thought, e.Clipped, maxNames, maxText, maxText)
	}
	for _, e := range page.Entries[1:] {
		if !e.Clipped || e.StateDiff != nil || e.Thought != "" {
			t.Errorf("entry %d has %d bytes of thought and state changes %v, want neither and clipped", e.Seq, len(e.Thought), e.StateDiff != nil)
		}
	}
	closeLog(t, l)
	verified(t, dir)
}

func TestConcurrentWritersAndAFollower(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, func(c *Config) { c.MaxBytes = 8 << 20 }) // two files
	l.Add(Entry{Kind: CallStarted, Actor: "before"})
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
				l.Add(Entry{Kind: CallEnded, Actor: fmt.Sprint("w", w), CallID: fmt.Sprint(i), Thought: strings.Repeat("t", 100)})
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
	// A follower that returns later gets all entries after the last one that it has.
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
	closeLog(t, l)
	if r := verified(t, dir); r.Entries != writers*each+1 {
		t.Fatalf("got %+v, want %d entries", r, writers*each+1)
	}
}

func BenchmarkAdd(b *testing.B) {
	l := open(b, b.TempDir())
	e := Entry{
		Kind: CallEnded, Actor: "planner", CallID: "call_0193f8a0-0000-7000-8000-000000000000", Language: surfaces.Python, StateMode: surfaces.Stateful,
		Surface: surfaces.Local, Status: surfaces.StatusDone, Attempts: 1, DurationMS: 0.4, RanOn: "node-a",
	}
	for b.Loop() {
		l.Add(e)
	}
	l.Flush()
}
