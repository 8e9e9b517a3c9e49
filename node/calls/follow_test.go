package calls

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/locusrun/locus/surfaces"
)

func newRecord(stop func()) *Record {
	t := NewTable()
	return t.Begin(NewID(), surfaces.Call{Actor: "a"}, func(string) { stop() })
}

func text(t Event) string {
	var d struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(t.Data, &d); err != nil {
		panic(err)
	}
	return d.Text
}

// follow gathers what a follower is told, by stream, and the names in order.
func follow(t *testing.T, r *Record, from int64) (out map[string]string, names []string) {
	t.Helper()
	out = map[string]string{}
	err := r.Follow(t.Context(), from, func(told Event) error {
		if n := len(names); n == 0 || names[n-1] != told.Name {
			names = append(names, told.Name)
		}
		if told.Name == "stdout" || told.Name == "stderr" {
			out[told.Name] += text(told)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out, names
}

func TestFollowPassesEverythingInOrder(t *testing.T) {
	r := newRecord(func() {})
	r.Event(surfaces.Event{Kind: surfaces.EventStarted, ID: r.ID, Name: "n"})
	r.Output("stdout", []byte("one "))
	r.Output("stderr", []byte("warn"))
	r.Event(surfaces.Event{Kind: surfaces.EventNotify, Text: "half"})
	r.Output("stdout", []byte("two"))
	r.Finish(surfaces.Result{Status: surfaces.StatusDone})
	out, names := follow(t, r, 0)
	if out["stdout"] != "one two" || out["stderr"] != "warn" {
		t.Fatalf("got %q", out)
	}
	if got, want := strings.Join(names, " "), "started stdout stderr notify stdout result"; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
}

func TestFollowStartsAtAnOffset(t *testing.T) {
	r := newRecord(func() {})
	r.Output("stdout", []byte("0123"))
	r.Output("stderr", []byte("4567"))
	r.Output("stdout", []byte("89"))
	r.Finish(surfaces.Result{})
	for from := range int64(12) {
		out, _ := follow(t, r, from)
		all := "0123456789"[min(from, 10):]
		if out["stderr"] != keep(all, "4567") || out["stdout"] != keep(all, "012389") {
			t.Errorf("from %d: got %q", from, out)
		}
	}
}

func keep(s, of string) string {
	return strings.Map(func(c rune) rune {
		if strings.ContainsRune(of, c) {
			return c
		}
		return -1
	}, s)
}

// Whatever the pieces and the moment at which a reader comes, it is told each
// byte once, or told that it was skipped.
func TestFollowLosesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRecord(func() {})
		sizes := rapid.SliceOfN(rapid.IntRange(1, journalBytes/3), 1, 8).Draw(rt, "sizes")
		var want [2]strings.Builder
		streams := []string{"stdout", "stderr"}
		var total int64
		go func() {
			for i, n := range sizes {
				p := []byte(strings.Repeat(string(rune('a'+i)), n))
				r.Output(streams[i%2], p)
			}
			r.Finish(surfaces.Result{})
		}()
		for i, n := range sizes {
			want[i%2].WriteString(strings.Repeat(string(rune('a'+i)), n))
			total += int64(n)
		}
		got := map[string]*strings.Builder{"stdout": {}, "stderr": {}}
		gap := false
		var last int64
		err := r.Follow(context.Background(), 0, func(told Event) error {
			if told.Offset < last {
				rt.Fatalf("the offset went back from %d to %d", last, told.Offset)
			}
			last = told.Offset
			if b := got[told.Name]; b != nil {
				b.WriteString(text(told))
			}
			gap = gap || told.Name == "notice"
			return nil
		})
		if err != nil {
			rt.Fatal(err)
		}
		if last != total {
			rt.Fatalf("ended at byte %d of %d", last, total)
		}
		for i, s := range streams {
			if !gap && got[s].String() != want[i].String() {
				rt.Fatalf("%s: got %d bytes, want %d", s, got[s].Len(), want[i].Len())
			}
		}
	})
}

func TestDroppedOutputIsReported(t *testing.T) {
	r := newRecord(func() {})
	r.Output("stdout", []byte(strings.Repeat("a", journalBytes)))
	r.Output("stdout", []byte(strings.Repeat("b", 100)))
	r.Finish(surfaces.Result{})
	out, names := follow(t, r, 0)
	if strings.Join(names, " ") != "notice stdout result" || len(out["stdout"]) != journalBytes {
		t.Fatalf("got %v and %d bytes", names, len(out["stdout"]))
	}
	if _, names := follow(t, r, 100); names[0] == "notice" {
		t.Fatal("a gap was told to a reader that had those bytes")
	}
}

// A character that comes in two pieces is told whole.
func TestUTF8CharactersAreNotSplit(t *testing.T) {
	r := newRecord(func() {})
	followed := make(chan map[string]string)
	started := make(chan struct{})
	go func() {
		out := map[string]string{}
		_ = r.Follow(context.Background(), 0, func(told Event) error {
			if told.Name == "notify" {
				close(started)
			}
			if told.Name == "stdout" {
				out["stdout"] += text(told) + "|"
			}
			return nil
		})
		followed <- out
	}()
	r.Event(surfaces.Event{Kind: surfaces.EventNotify})
	<-started
	for _, b := range []byte("é€😀\xf0\x9f") {
		r.Output("stdout", []byte{b})
	}
	r.Finish(surfaces.Result{})
	got := strings.ReplaceAll((<-followed)["stdout"], "|", "")
	if got != "é€😀\uFFFD\uFFFD" {
		t.Fatalf("got %q, want \"é€😀\\uFFFD\\uFFFD\"", got)
	}
}

func TestRetryDiscardsTheFirstAttemptsOutput(t *testing.T) {
	r := newRecord(func() {})
	r.Output("stdout", []byte("first attempt"))
	r.Event(surfaces.Event{Kind: surfaces.EventNotice, Name: surfaces.NoticeRetry})
	r.Output("stdout", []byte("second"))
	r.Finish(surfaces.Result{})
	if got, want := r.Result().Stdout, "second"; got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
	if out, _ := follow(t, r, 0); out["stdout"] != "first attemptsecond" {
		t.Fatalf("a reader was told %q", out["stdout"])
	}
}

func TestFollowEndsWithItsContextAndItsReader(t *testing.T) {
	r := newRecord(func() {})
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(gone)
	if err := r.Follow(ctx, 0, func(Event) error { return nil }); !errors.Is(err, gone) {
		t.Fatalf("got %v", err)
	}
	r.Output("stdout", []byte("x"))
	if err := r.Follow(context.Background(), 0, func(Event) error { return gone }); !errors.Is(err, gone) {
		t.Fatalf("got %v", err)
	}
}

func TestAbandonedCallIsStoppedAfterTheGrace(t *testing.T) {
	wait := func(c chan struct{}) bool {
		select {
		case <-c:
			return true
		case <-time.After(time.Minute):
			return false
		}
	}
	newStoppable := func() (*Record, chan struct{}) {
		stopped := make(chan struct{})
		var once sync.Once
		return newRecord(func() { once.Do(func() { close(stopped) }) }), stopped
	}
	t.Run("at once", func(t *testing.T) {
		r, stopped := newStoppable()
		r.Abandon(0)
		if !wait(stopped) {
			t.Fatal("not stopped")
		}
	})
	t.Run("after the grace time", func(t *testing.T) {
		r, stopped := newStoppable()
		r.Abandon(time.Millisecond)
		if !wait(stopped) {
			t.Fatal("not stopped")
		}
	})
	t.Run("not when somebody came back", func(t *testing.T) {
		r, stopped := newStoppable()
		r.Abandon(time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		followed := make(chan error, 1)
		go func() { followed <- r.Follow(ctx, 0, func(Event) error { cancel(); return nil }) }()
		r.Output("stdout", []byte("x"))
		<-followed
		r.mu.Lock()
		leaving := r.abandonTimer
		r.mu.Unlock()
		if leaving != nil {
			t.Fatal("the call is still about to be stopped")
		}
		select {
		case <-stopped:
			t.Fatal("stopped")
		default:
		}
	})
	t.Run("not in the background", func(t *testing.T) {
		r, stopped := newStoppable()
		r.Call.Background = true
		r.Abandon(0)
		select {
		case <-stopped:
			t.Fatal("stopped")
		case <-time.After(20 * time.Millisecond):
		}
	})
}

// What waits for the caller's answer is told to everybody who follows, however much
// came after it, until it is answered.
func TestUnansweredPrimitiveIsSentToEachFollower(t *testing.T) {
	r := newRecord(func() {})
	ask := func(seq string) {
		r.Event(surfaces.Event{Kind: surfaces.EventPrimitive, ID: seq, Name: "fs.ls", Data: json.RawMessage(`{}`)})
	}
	r.Event(surfaces.Event{Kind: surfaces.EventStarted})
	for _, seq := range []string{"1", "2", "3"} {
		ask(seq)
	}
	r.Settle("2")
	for range 2 * journalEvents {
		r.Event(surfaces.Event{Kind: surfaces.EventNotify, Text: "x"})
	}
	ask("4")
	r.Settle("3")
	told := func() string {
		var seqs []string
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err := r.Follow(ctx, 0, func(told Event) error {
			var d struct{ Seq json.Number }
			if told.Name == surfaces.EventPrimitive {
				if err := json.Unmarshal(told.Data, &d); err != nil {
					return err
				}
				seqs = append(seqs, d.Seq.String())
				if d.Seq == "4" {
					cancel()
				}
			}
			return nil
		})
		if !errors.Is(err, context.Canceled) && err != nil {
			t.Fatal(err)
		}
		return strings.Join(seqs, " ")
	}
	if got, want := told(), "1 4"; got != want {
		t.Errorf("told %s, want %s", got, want)
	}
	// One who had the first, and then read too slowly, is told what came since.
	c := cursor{span: 2}
	if p, ok := r.journal.read(&c); !ok || p.event.Kind == surfaces.EventPrimitive {
		t.Errorf("told again: %+v", p.event)
	}
	r.Settle("1")
	if got, want := told(), "4"; got != want {
		t.Errorf("told %s, want %s", got, want)
	}
	r.Finish(surfaces.Result{})
	if len(r.journal.waiting) != 0 {
		t.Error("an ended call keeps what waits")
	}
}
