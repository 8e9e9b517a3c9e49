package calls

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/locusrun/locus/surfaces"
)

var errCut = errors.New("cut")

// copyTo hands what one record says to another, as a node does that holds a call
// which runs elsewhere. It gives where it came to, and stops after some items.
func copyTo(ctx context.Context, from, to *Record, at Mark, seen map[string]int64, items int) (Mark, error) {
	err := from.Stream(ctx, at, func(batch []Item, _ bool) error {
		for _, it := range batch {
			if items == 0 {
				return errCut
			}
			items--
			at = it.Next
			if it.Event != nil {
				to.Event(*it.Event)
				continue
			}
			if gap := it.Offset - seen[it.Stream]; gap > 0 {
				to.Skip(it.Stream, gap)
			}
			to.Output(it.Stream, it.Text)
			seen[it.Stream] = it.Offset + int64(len(it.Text))
		}
		return nil
	})
	return at, err
}

// However often the reader is cut off, the copy ends with the same result as the
// original, and has each event once.
func TestFeedResumesFromItsMark(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		original, mirror := newRecord(func() {}), newRecord(func() {})
		seen := map[string]int64{}
		var at Mark
		events := 0
		for range rapid.IntRange(0, 30).Draw(rt, "steps") {
			switch rapid.IntRange(0, 3).Draw(rt, "step") {
			case 0, 1:
				stream := rapid.SampledFrom([]string{surfaces.StreamStdout, surfaces.StreamStderr}).Draw(rt, "stream")
				n := rapid.SampledFrom([]int{1, 7, 5000, HeadBytes, journalBytes / 3, journalBytes + 5}).Draw(rt, "bytes")
				original.Output(stream, bytes.Repeat([]byte{byte('a' + rapid.IntRange(0, 3).Draw(rt, "letter"))}, n))
			case 2:
				original.Event(surfaces.Event{Kind: surfaces.EventNotify, Text: "x"})
				events++
			case 3:
				// The reader reads on for a few items, then its link breaks.
				var err error
				at, err = feedSome(original, mirror, at, seen, rapid.IntRange(0, 5).Draw(rt, "items"))
				if err != nil && !errors.Is(err, errCut) {
					rt.Fatal(err)
				}
			}
		}
		original.Finish(surfaces.Result{Status: surfaces.StatusDone})
		if _, err := copyTo(context.Background(), original, mirror, at, seen, -1); err != nil {
			rt.Fatal(err)
		}
		want := original.Result()
		for _, stream := range []string{surfaces.StreamStdout, surfaces.StreamStderr} {
			if gap := original.StreamBytes(stream) - mirror.StreamBytes(stream); gap > 0 {
				mirror.Skip(stream, gap)
			}
		}
		if mirror.stdout.cut || mirror.stderr.cut {
			mirror.Complete(want)
		}
		mirror.Finish(surfaces.Result{Status: surfaces.StatusDone})
		got := mirror.Result()
		if got.Stdout != want.Stdout || got.Stderr != want.Stderr || !reflect.DeepEqual(got.Truncated, want.Truncated) {
			rt.Fatalf("the copy differs: cut %+v and %+v", got.Truncated, want.Truncated)
		}
		if mirror.stdout.total != original.stdout.total || mirror.stderr.total != original.stderr.total {
			rt.Fatal("the copy counts other bytes")
		}
		if n := mirror.journal.events; n != events {
			rt.Fatalf("the copy has %d events, the original %d", n, events)
		}
	})
}

// feedSome reads at most so many items of what is there now, and is cut off.
func feedSome(from, to *Record, at Mark, seen map[string]int64, items int) (Mark, error) {
	there := 0
	c := cursor{span: at.Span, at: at.At}
	for p, ok := from.journal.read(&c); ok; p, ok = from.journal.read(&c) {
		if p.gap == 0 {
			there++
		}
	}
	if there == 0 {
		return at, nil
	}
	return copyTo(context.Background(), from, to, at, seen, min(items, there-1))
}
