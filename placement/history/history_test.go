package history

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// An append and a read that were answered, in a session named s.
func added(at int64, generation, list string, more ...func(*Call)) Call {
	tokens := strings.Fields(list)
	return with(Call{
		Session: "s", Token: tokens[len(tokens)-1], Invoked: at, Returned: at + 5,
		Outcome: Answered, Generation: generation, List: tokens, Attempts: 1,
	}, more)
}

func read(at int64, generation, list string, more ...func(*Call)) Call {
	return with(Call{
		Session: "s", Token: "r", Read: true, Invoked: at, Returned: at + 5,
		Outcome: Answered, Generation: generation, List: strings.Fields(list), Attempts: 1,
	}, more)
}

func with(c Call, more []func(*Call)) Call {
	for _, f := range more {
		f(&c)
	}
	return c
}

func isTold(c *Call)    { c.Told = true }
func isUnknown(c *Call) { c.Outcome, c.List, c.Generation = Unknown, nil, "" }
func isNothing(c *Call) { c.Outcome, c.List, c.Generation, c.Attempts = NothingRan, nil, "", 0 }
func isLost(c *Call)    { c.Outcome, c.Told = Lost, true }
func isSecond(c *Call)  { c.Attempts = 2 }
func isOnce(c *Call)    { c.Once = true }
func isSilent(c *Call) {
	c.Outcome, c.List, c.Generation, c.Attempts, c.Silent = Unknown, nil, "", 0, true
}
func isLong(c *Call) { c.Returned += 10 }

// ran gives the marks of code that ran, one after the other.
func ran(calls ...string) (marks []Mark) {
	for i, c := range calls {
		at := strings.Split(c, "/")
		marks = append(marks, Mark{Session: "s", Generation: at[0], Token: at[1], Start: true, At: int64(10 * i)})
	}
	return marks
}

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		calls []Call
		marks []Mark
		wrong string // the promise and what the complaint speaks of; empty when all is well
	}{
		"peace":            {[]Call{added(0, "g", "a"), added(10, "g", "a b"), read(20, "g", "a b")}, ran("g/a", "g/b"), ""},
		"an append lost":   {[]Call{added(0, "g", "a"), added(10, "g", "b")}, ran("g/a", "g/b"), "loss_told: .*no order"},
		"an old read":      {[]Call{added(0, "g", "a"), added(10, "g", "a b"), read(20, "g", "a")}, ran("g/a", "g/b"), "loss_told: .*no order"},
		"a read meanwhile": {[]Call{added(0, "g", "a"), added(10, "g", "a b", isLong), read(12, "g", "a")}, ran("g/a", "g/b"), ""},
		"lost and told":    {[]Call{added(0, "g", "a"), added(10, "h", "b", isTold), added(20, "h", "b c")}, ran("g/a", "h/b", "h/c"), ""},
		"lost, not told":   {[]Call{added(0, "g", "a"), added(10, "h", "b")}, ran("g/a", "h/b"), "loss_told: .*before anybody was told"},
		"a reader is told before": {
			[]Call{added(0, "g", "a"), read(10, "", "", isTold), added(20, "h", "b")}, ran("g/a", "h/b"), "",
		},
		"told too late": {
			[]Call{added(0, "g", "a"), added(10, "h", "b"), added(20, "h", "b c", isTold)}, ran("g/a", "h/b", "h/c"), "loss_told: .*before anybody was told",
		},
		"another is told at the same time": {
			[]Call{added(0, "g", "a"), added(10, "h", "b", isLong), added(14, "h", "b c", isTold)}, ran("g/a", "h/b", "h/c"), "",
		},
		"the old state after the rebuild": {
			[]Call{added(0, "g", "a"), added(10, "h", "b", isTold), read(20, "g", "a")}, ran("g/a", "h/b"), "loss_told: .*no order",
		},
		"an empty read, told":     {[]Call{added(0, "g", "a"), read(10, "", "", isTold)}, ran("g/a"), ""},
		"an empty read, not told": {[]Call{added(0, "g", "a"), read(10, "", "")}, ran("g/a"), "readers_see: .*before anybody was told"},
		"a read of a new session": {[]Call{read(0, "", ""), read(2, "", "", isLong), added(4, "g", "a")}, ran("g/a"), ""},
		"a read of what is gone": {
			[]Call{added(0, "g", "a"), read(10, "", "", isLost), added(20, "h", "b", isTold)}, ran("g/a", "h/b"), "",
		},
		"gone, and there again": {
			[]Call{added(0, "g", "a"), read(10, "", "", isLost), read(20, "g", "a")}, ran("g/a"), "loss_told: .*no order",
		},
		"gone, as another was told before": {
			[]Call{added(0, "g", "a"), added(10, "h", "b", isTold), read(20, "", "", isLost), read(30, "h", "b")}, ran("g/a", "h/b"), "",
		},
		"unknown, and it ran":      {[]Call{added(0, "g", "a", isUnknown), added(10, "g", "a b")}, ran("g/a", "g/b"), ""},
		"unknown, ran later":       {[]Call{added(0, "g", "a"), added(10, "g", "b", isUnknown), added(20, "g", "a c"), added(30, "g", "a c b d")}, ran("g/a", "g/c", "g/b", "g/d"), ""},
		"unknown, and it did not":  {[]Call{added(0, "g", "a", isUnknown), added(10, "g", "b")}, ran("g/b"), ""},
		"nothing, and it ran":      {[]Call{added(0, "g", "a", isNothing)}, ran("g/a"), "starts: .*told that nothing ran"},
		"nothing":                  {[]Call{added(0, "g", "a", isNothing)}, nil, ""},
		"ran twice in one attempt": {[]Call{added(0, "g", "a")}, ran("g/a", "g/a"), "starts: .*ran 2 times in 1"},
		"ran twice in two": {
			[]Call{added(0, "g", "a"), added(10, "h", "b", isTold, isSecond)}, ran("g/a", "g/b", "h/b"), "",
		},
		"the first attempt was seen": {
			[]Call{added(0, "g", "a"), added(10, "h", "b", isTold, isSecond, isLong), added(12, "g", "a b c")}, ran("g/a", "g/b", "g/c", "h/b"), "",
		},
		"a second attempt that is silent": {
			[]Call{added(0, "g", "a"), added(10, "h", "b", isSecond), added(11, "h", "b c", isTold)}, ran("g/a", "h/b", "h/c"), "loss_told: .*does not speak",
		},
		"ran twice though it was asked not to": {[]Call{added(0, "g", "a", isOnce, isSecond, isTold)}, ran("g/a", "h/a"), "starts: .*ran 2 times"},
		"three attempts":                       {[]Call{added(0, "g", "a", func(c *Call) { c.Attempts = 3 }, isTold)}, ran("g/a"), "starts: .*3 attempts"},
		"answered, and never ran":              {[]Call{added(0, "g", "a")}, nil, "starts: .*never ran"},
		"told to a door that was gone": {
			[]Call{added(0, "g", "a"), added(10, "h", "b", isSilent), added(20, "h", "b c")}, ran("g/a", "h/b", "h/c"), "",
		},
		"told of a loss before": {
			[]Call{added(0, "g", "a"), added(10, "", "x", isUnknown, isTold), added(20, "h", "b"), added(30, "i", "c")}, ran("g/a", "h/b", "i/c"), "loss_told: .*c was answered out of .* before anybody was told",
		},
		"a door that was gone before the loss": {
			[]Call{added(0, "g", "a"), added(10, "g", "a b", isSilent), read(20, "g", "a b"), added(30, "h", "c")}, ran("g/a", "g/b", "h/c"), "loss_told: .*before anybody was told",
		},
		"ran twice behind a door that was gone":  {[]Call{added(0, "g", "a", isSilent)}, ran("g/a", "h/a"), ""},
		"ran thrice behind a door that was gone": {[]Call{added(0, "g", "a", isSilent)}, ran("g/a", "h/a", "i/a"), "starts: .*ran 3 times"},
		"ran twice behind a door, asked not to":  {[]Call{added(0, "g", "a", isSilent, isOnce)}, ran("g/a", "h/a"), "starts: .*ran 2 times"},
		"an empty read behind a door that was gone": {
			[]Call{added(0, "g", "a", isSilent), added(10, "g", "a b"), read(20, "", "")}, ran("g/a", "g/b"), "readers_see: .*before anybody was told",
		},
		"two generations at once":  {nil, ran("g/a", "h/b", "g/c"), "one_owner: .*after a later one"},
		"one generation after one": {nil, ran("g/a", "g/b", "h/c"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			var wrong string
			for _, v := range Check(c.calls, c.marks, time.Minute) {
				wrong += string(v.Promise) + ": " + v.Text + "\n"
			}
			if (wrong == "") != (c.wrong == "") || !regexp.MustCompile(c.wrong).MatchString(wrong) {
				t.Fatalf("got %q, want %q", wrong, c.wrong)
			}
		})
	}
}
