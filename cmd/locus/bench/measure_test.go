package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestFigures(t *testing.T) {
	for _, row := range []struct {
		seen []float64
		want string
	}{
		{[]float64{3}, "{1 3 3 3}"},
		{[]float64{5, 1, 4, 2, 3}, "{5 1 3 5}"},
		{hundred(1), "{100 1 51 99}"},
		{hundred(2), "{200 1 101 198}"},
	} {
		if got := fmt.Sprint(figures(row.seen)); got != row.want {
			t.Errorf("%v: got %s, want %s", row.seen, got, row.want)
		}
	}
}

// hundred counts down to 1 from so many hundreds.
func hundred(n int) (seen []float64) {
	for i := 100 * n; i > 0; i-- {
		seen = append(seen, float64(i))
	}
	return seen
}

func TestUnits(t *testing.T) {
	of := []time.Duration{time.Second}
	if f := Millis.figures(of); f.Median != 1000 {
		t.Errorf("got %v, want median 1000", f)
	}
	if f := Megabytes.figures(of); f.Median != outputBytes/1e6 {
		t.Errorf("got %v, want median %v", f, outputBytes/1e6)
	}
}

// Two things take turns, and the first rounds do not count.
func TestTurns(t *testing.T) {
	said, n := "", 0
	do := func(name string) action {
		return func(context.Context) (time.Duration, error) {
			said += name
			n++
			return time.Duration(n), nil
		}
	}
	of, err := turns(t.Context(), 0, do("a"), do("b"))
	if err != nil || said != strings.Repeat("ab", warmups+leastRounds) {
		t.Fatalf("%q, %v", said, err)
	}
	if got, want := fmt.Sprint(of), "[[7ns 9ns 11ns 13ns 15ns] [8ns 10ns 12ns 14ns 16ns]]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if of, err = turns(t.Context(), time.Hour, do("a"), nil); err != nil || len(of[0]) != mostRounds || of[1] != nil {
		t.Errorf("%d and %d rounds, %v", len(of[0]), len(of[1]), err)
	}
	broken := errors.New("broken")
	if _, err := turns(t.Context(), time.Hour, do("a"), func(context.Context) (time.Duration, error) { return 0, broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// What there is no floor for on this machine is told, and not made up.
func TestNoFloor(t *testing.T) {
	m := &meter{}
	if do, why := m.cold("", "python3", "1"); do != nil || !strings.Contains(why, "no python3") {
		t.Errorf("got %q, want none to run, because of \"no python3\"", why)
	}
	for _, thing := range m.things() {
		if wants := strings.HasSuffix(thing.row.Floor.What, "-c"); (thing.floor == nil) != wants || (thing.row.Without == "") == wants {
			t.Errorf("%s: %+v", thing.row.Name, thing.row)
		}
	}
}

func TestThroughPipe(t *testing.T) {
	if err := throughPipe(t.Context()); err != nil {
		t.Error(err)
	}
}
