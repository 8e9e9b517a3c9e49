package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/sandbox"
)

const gib = 1 << 30

// watched is a memory watch with scripted readings that records what it does.
type watched struct {
	*memory
	available int64
	failing   bool
	log       []string
	families  int // that can be closed
	sessions  int

	sessionSize int64 // what closing one frees
	failAfter   int   // if not 0, the readings fail after so many
}

func newWatched() *watched {
	w := &watched{available: 4 * gib}
	w.memory = &memory{
		read: func() (sandbox.Memory, error) {
			if w.failAfter > 0 {
				w.failAfter--
				w.failing = w.failAfter == 0
			}
			if w.failing {
				return sandbox.Memory{}, errors.New("no /proc")
			}
			return sandbox.Memory{Total: 8 * gib, Available: w.available}, nil
		},
		warm: func(on bool) {
			if last := fmt.Sprint("warm ", on); !on || slices.Contains(w.log, "warm false") {
				w.log = append(w.log, last)
			}
		},
		families: func() int { w.log = append(w.log, "families"); n := w.families; w.families = 0; return n },
		sessions: func(enough func() bool) (closed int) {
			w.log = append(w.log, "sessions")
			for w.sessions > 0 && !enough() {
				w.sessions--
				w.available += w.sessionSize
				closed++
			}
			return closed
		},
		changed: func(now, _ pressure, _ sandbox.Memory, mark int64) {
			w.log = append(w.log, fmt.Sprintf("%s below %d MiB", now, mark>>20))
		},
	}
	return w
}

// given makes a number of readings and returns what was done.
func (w *watched) given(t *testing.T, available int64, looks int) string {
	t.Helper()
	w.available, w.log = available, nil
	for range looks {
		if err := w.check(); err != nil {
			t.Fatal(err)
		}
	}
	return strings.Join(w.log, ", ")
}

// Memory is freed step by step in a fixed order, and the pressure ends when it has been absent
// for a while.
func TestMemoryIsFreedInOrder(t *testing.T) {
	w := newWatched()
	w.families, w.sessions = 2, 1
	for _, step := range []struct {
		available int64
		looks     int
		want      string
	}{
		{4 * gib, 3, ""},
		{512 << 20, 1, ""},
		{512<<20 - 1, 1, "low below 512 MiB, warm false"},
		{500 << 20, 1, "warm false, families"},
		{500 << 20, 1, "warm false, families, sessions"},
		{600 << 20, 1, "warm false"}, // enough, but little more
		{100 << 20, 1, "critical below 512 MiB, warm false, families, sessions"},
		{300 << 20, 1, "low below 512 MiB, warm false, families, sessions"},
		{2 * gib, requiredCalmChecks - 1, strings.Repeat("warm false, ", requiredCalmChecks-2) + "warm false"},
		{600 << 20, 1, "warm false"}, // not long enough yet
		{2 * gib, requiredCalmChecks, strings.Repeat("warm false, ", requiredCalmChecks-1) + "none below 512 MiB, warm true"},
		{300 << 20, 1, "low below 512 MiB, warm false"}, // starts again from the beginning
	} {
		if got := w.given(t, step.available, step.looks); got != step.want {
			t.Fatalf("%d MiB, %d looks: %s\nwant %s", step.available>>20, step.looks, got, step.want)
		}
	}
}

// Sessions are closed until there is enough memory, not all that may be closed. What can no
// longer be measured closes nothing.
func TestNoMoreSessionsAreClosedThanNeeded(t *testing.T) {
	for name, c := range map[string]struct {
		available, size   int64
		failAfter, remain int
	}{
		"two are enough":      {400 << 20, 60 << 20, 0, 8},
		"one is enough":       {400 << 20, 1 << 30, 0, 9},
		"all are not enough":  {10 << 20, 1 << 20, 0, 0},
		"the reading fails":   {400 << 20, 1 << 20, 3, 9}, // after one was closed
		"the freed is hidden": {400 << 20, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatched()
			w.given(t, c.available, 2) // sessions are the third step
			w.sessions, w.sessionSize, w.failAfter = 10, c.size, c.failAfter
			err := w.check()
			if (err != nil) != (c.failAfter > 0) {
				t.Errorf("error %v", err)
			}
			if w.sessions != c.remain {
				t.Errorf("%d sessions are left, want %d", w.sessions, c.remain)
			}
			if w.exhausted && w.available >= 512<<20 {
				t.Error("nothing is left to free, although there is enough")
			}
		})
	}
}

// Under critical pressure no session is created, and if nothing can be freed nothing is.
func TestRoomUnderPressure(t *testing.T) {
	w := newWatched()
	room := func() string {
		var open []string
		for kind, name := range map[kernel.Kind]string{kernel.Session: "session", kernel.OneShot: "once"} {
			if r := w.room(kind); r == nil {
				open = append(open, name)
			} else if r.Code != "no_capacity" || r.RetryAfterS == 0 || !strings.Contains(r.Message, "200 MiB") {
				t.Errorf("refused with %+v", r)
			}
		}
		slices.Sort(open)
		return strings.Join(open, " ")
	}
	want := func(available int64, want string) {
		t.Helper()
		w.given(t, available, 1)
		if got := room(); got != want {
			t.Fatalf("with %d MiB there is room for %q, want %q", available>>20, got, want)
		}
	}
	want(4*gib, "once session")
	want(400<<20, "once session")
	w.families = 1
	want(200<<20, "once") // a family is closed
	want(200<<20, "")     // there is nothing more to close
	w.sessions = 1
	want(200<<20, "once")
	want(200<<20, "")
	want(400<<20, "once session")
}

// A failed reading changes nothing.
func TestMemoryThatCannotBeRead(t *testing.T) {
	w := newWatched()
	w.given(t, 300<<20, 1)
	w.failing = true
	if err := w.check(); err == nil {
		t.Fatal("no error")
	}
	if at, m := w.status(); at != low || m.Available != 300<<20 {
		t.Errorf("%s %+v", at, m)
	}
}

func TestLowMark(t *testing.T) {
	for _, c := range []struct{ given, total, want int64 }{
		{0, 64 * gib, 512 << 20}, {0, 2000, 200}, {3 * gib, 64 * gib, 3 * gib},
	} {
		w := &memory{mark: c.given}
		if got := w.lowMark(c.total); got != c.want {
			t.Errorf("%d of %d: %d, want %d", c.given, c.total, got, c.want)
		}
	}
}
