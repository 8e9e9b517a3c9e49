package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/locusrun/locus/node/gateway/client"
	"github.com/locusrun/locus/placement/history"
	"github.com/locusrun/locus/surfaces"
)

// at gives a time of a history in seconds.
func at(s float64) int64 { return int64(seconds(s)) }

// a call of a history that went well: it appended its token to the session s.
func appended(began float64, token, generation, list string) Call {
	tokens := strings.Fields(list)
	result, err := json.Marshal([]any{generation, tokens})
	if err != nil {
		panic(err)
	}
	return Call{
		Token: token, Node: 1, Program: programAppend, Began: at(began), Ended: at(began + 0.1),
		Arguments: client.Arguments{StateMode: to("stateful"), SessionName: to("s"), TimeoutS: to(2.0), OnLoss: to("retry")},
		Answer:    &Answer{CallID: "call_" + token, Status: surfaces.StatusDone, Result: result, Attempts: 1, Node: 2},
	}
}

// good is a history of a run in which node 2 is killed and its session lost, which the
// next caller is told. Nothing is wrong with it.
func good() *History {
	told := appended(7, "c", "h", "c")
	told.Answer.StateLost = surfaces.StateLost{Loss: &surfaces.Loss{Reason: "node_expired", Epoch: 4}}
	told.Answer.Node, told.Answer.Attempts = 3, 2
	reader := appended(8, "d", "h", "c")
	reader.Program, reader.Arguments.StateMode, reader.Answer.Node = programRead, to("read_only"), 3
	again := *reader.Answer
	reader.Again = &Again{By: "id", Node: 3, Answer: &again}
	return &History{
		Run:    Run{Format: Format, Version: "test", Seed: 7, Nodes: []string{"n1", "n2", "n3"}, Fast: true, Faults: []Kind{Kill, Restart}, ForS: 9, SlackS: 5, Programs: programs()},
		Calls:  []Call{appended(1, "a", "g", "a"), appended(2, "b", "g", "a b"), told, reader},
		Faults: []Fault{{Number: 1, Kind: Kill, Target: Owner, Node: 2, Began: at(4), Ended: at(6)}},
		Healed: []Healed{{Node: 1, What: "a new session", Began: at(9), Ended: at(9.25)}},
		Marks: []Mark{
			{"s", "g", "a", true, at(1.05)}, {"s", "g", "b", true, at(2.05)}, {"s", "g", "c", true, at(3.9)},
			{"s", "h", "c", true, at(7.05)}, {"s", "h", "c", false, at(7.06)},
		},
		End: &End{At: at(10)},
	}
}

// save writes a history as a run does.
func save(t *testing.T, h *History) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), HistoryFile)
	j, err := newJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	j.add(Line{Run: &h.Run})
	for _, f := range h.Faults {
		begun := f
		begun.Ended, begun.Status, begun.Problem = 0, nil, ""
		j.add(Line{Fault: &begun})
		j.add(Line{Fault: &f})
	}
	for _, c := range h.Calls {
		j.add(Line{Call: &c})
	}
	for _, l := range h.Healed {
		j.add(Line{Healed: &l})
	}
	for _, m := range h.Marks {
		j.add(Line{Mark: &m})
	}
	if h.End != nil {
		j.add(Line{End: h.End})
	}
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// checked writes a history, reads it again and checks it.
func checked(t *testing.T, h *History) Report {
	t.Helper()
	path := save(t, h)
	read, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return Check(read, path)
}

func TestAHistoryThatIsWell(t *testing.T) {
	r := checked(t, good())
	if !r.Held || r.Undecided != "" || len(r.Violations) != 0 {
		t.Fatalf("got %+v, want Held, Undecided empty, 0 Violations", r)
	}
	want := Report{
		Held: true, Violations: r.Violations, History: r.History, Again: "locus chaos run --seed 7 --nodes 3 --for 9s --fast --faults kill,restart",
		Seed: 7, Nodes: 3, Fast: true, Version: "test", TookS: 10, SlackS: 5, Calls: 4, Outcomes: map[string]int{"done": 4},
		Asked: 1, Same: 1, Lost: 1, Told: 1, Retried: 1, LongestMS: 100, HealedMS: 250,
		Faults: []FaultRows{{Kind: Kill, Target: Owner, Count: 1, Answered: 1, LeastMS: 3100, MedianMS: 3100, MostMS: 3100}},
	}
	if got, want := fmt.Sprintf("%+v", r), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

// Each promise is broken by one small change to a history that is well.
func TestADoctoredHistory(t *testing.T) {
	for name, row := range map[string]struct {
		doctor func(*History)
		want   history.Promise
		says   string
	}{
		"a loss is not told": {func(h *History) {
			h.Calls[2].Answer.StateLost.Loss, h.Calls[2].Answer.Attempts = nil, 1
			h.Marks = slices.Delete(h.Marks, 2, 3)
		}, history.LossReported, "before anybody was told"},
		"a second attempt does not speak of the loss": {func(h *History) { h.Calls[2].Answer.StateLost.Loss = nil }, history.LossReported, "does not speak of lost state"},
		"an append is lost":                           {func(h *History) { h.Calls[1].Answer.Result = json.RawMessage(`["g",["b"]]`) }, history.LossReported, "no order"},
		"old state comes back":                        {func(h *History) { h.Calls[3].Answer.Result = json.RawMessage(`["g",["a","b"]]`) }, history.LossReported, "no order"},
		"a reader sees an empty session": {func(h *History) {
			h.Calls[3].Answer.Result = json.RawMessage(`["",[]]`)
			h.Calls[3].Again.Answer.Result = h.Calls[3].Answer.Result
			h.Calls[3].Began, h.Calls[3].Ended = at(6.5), at(6.6)
		}, history.ReadersSee, "before anybody was told"},
		"code runs twice in one attempt": {func(h *History) { h.Marks = append(h.Marks, Mark{"s", "h", "b", true, at(8)}) }, history.Starts, "b ran 2 times in 1 attempts"},
		"code runs and is said not to have": {func(h *History) {
			h.Calls[1].Answer.Code, h.Calls[1].Answer.Error = to(surfaces.CodeOwnerUnreachable), to("no")
		}, history.Starts, "told that nothing ran"},
		"code never runs and is answered":   {func(h *History) { h.Marks = slices.Delete(h.Marks, 1, 2) }, history.Starts, "b was answered and never ran"},
		"two generations at work":           {func(h *History) { h.Marks = append(h.Marks, Mark{"s", "g", "b", false, at(7.5)}) }, history.SingleOwner, "after a later one"},
		"another answer at the second look": {func(h *History) { h.Calls[3].Again.Answer.Result = json.RawMessage(`["h",[]]`) }, OneAnswer, "by its id at node 3"},
		"another call under the same key":   {func(h *History) { h.Calls[3].Again.By, h.Calls[3].Again.Answer.CallID = "key", "call_x" }, OneAnswer, "by its key"},
		"a key that is said to be another's": {func(h *History) {
			h.Calls[3].Again.By, h.Calls[3].Again.Answer.Code = "key", to(surfaces.CodeInvalidArgument)
		}, OneAnswer, "by its key"},
		"an answer that comes too late":        {func(h *History) { h.Calls[3].Ended = h.Calls[3].Began + at(8.6) }, InTime, "6.6s after its deadline of 2s"},
		"an answer that never comes":           {func(h *History) { h.Calls[3].Answer, h.Calls[3].Problem = nil, &Problem{GaveUp, "no"} }, InTime, "no answer within"},
		"a door that breaks without a fault":   {func(h *History) { h.Calls[3].Answer, h.Calls[3].Problem = nil, &Problem{Broken, "EOF"} }, Answers, "neither killed nor shut down"},
		"a code that nothing explains":         {func(h *History) { h.Calls[3].Answer.Code = to(surfaces.CodeInternal) }, Answers, "nothing that was done explains"},
		"a result of another program":          {func(h *History) { h.Calls[3].Answer.Result = json.RawMessage(`41`) }, Answers, "not what its code gives"},
		"a drain that fails":                   {func(h *History) { h.Faults[0].Kind, h.Faults[0].Status = Restart, to(1) }, Drains, "status 1"},
		"a node that does not come back":       {func(h *History) { h.Faults[0].Problem = "no" }, Heals, "could not be ended"},
		"something that does not work anymore": {func(h *History) { h.Healed[0].Problem = "no" }, Heals, "at node 1, a new session"},
		"a run that gave up":                   {func(h *History) { h.End.Problem = "no" }, Heals, "no"},
	} {
		t.Run(name, func(t *testing.T) {
			h := good()
			row.doctor(h)
			r := checked(t, h)
			if r.Held || len(r.Violations) == 0 {
				t.Fatalf("nothing is found: %+v", r)
			}
			if !slices.ContainsFunc(r.Violations, func(v history.Violation) bool {
				return v.Promise == row.want && strings.Contains(v.Text, row.says)
			}) {
				t.Errorf("got %q, want %s: %s", r.Violations, row.want, row.says)
			}
		})
	}
}

// What looks like a broken promise, and is none.
func TestWhatFaultsExplain(t *testing.T) {
	for name, doctor := range map[string]func(*History){
		"the door of a call is killed under it": func(h *History) {
			h.Faults = append(h.Faults, Fault{Number: 2, Kind: Kill, Target: Any, Node: 1, Began: at(8.05), Ended: at(9)})
			h.Calls[3].Answer, h.Calls[3].Again, h.Calls[3].Problem = nil, nil, &Problem{Broken, "EOF"}
		},
		"nobody was there": func(h *History) {
			h.Faults = append(h.Faults, Fault{Number: 2, Kind: Restart, Target: Any, Node: 1, Began: at(8.05), Ended: at(9), Status: to(0)})
			h.Calls[3].Answer, h.Calls[3].Again, h.Calls[3].Problem = nil, nil, &Problem{Unreachable, "refused"}
		},
		"the loss is told to one whose door was killed": func(h *History) {
			h.Faults = append(h.Faults, Fault{Number: 2, Kind: Kill, Target: Any, Node: 1, Began: at(7.05), Ended: at(7.5)})
			h.Calls[2].Answer, h.Calls[2].Problem = nil, &Problem{Broken, "EOF"}
		},
		"the door of a call is stopped for long": func(h *History) {
			h.Faults = append(h.Faults, Fault{Number: 2, Kind: Stop, Target: Any, Node: 1, Began: at(8), Ended: at(20)})
			h.Calls[3].Ended = at(27)
		},
		"nobody knows the call any more": func(h *History) {
			h.Calls[3].Again.Answer = &Answer{Status: surfaces.StatusRefused, Code: to(surfaces.CodeInvalidArgument)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := good()
			doctor(h)
			if r := checked(t, h); !r.Held {
				t.Fatalf("got %q, want Held", r.Violations)
			}
		})
	}
}

// A history that is not whole proves nothing, which is neither good nor bad.
func TestWhatIsUndecided(t *testing.T) {
	for name, doctor := range map[string]func(*History){
		"killed":      func(h *History) { h.End, h.Calls, h.Marks = nil, h.Calls[1:], nil },
		"interrupted": func(h *History) { h.End.Interrupted = true },
		"no fault":    func(h *History) { h.Faults = nil },
		"no call":     func(h *History) { h.Calls, h.Marks = nil, nil },
		"no good call": func(h *History) {
			h.Calls, h.Marks = h.Calls[:1], nil
			h.Calls[0].Answer.Code = to(surfaces.CodeTimeout)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := good()
			doctor(h)
			if r := checked(t, h); r.Held || r.Undecided == "" || len(r.Violations) != 0 {
				t.Fatalf("got %+v, want no Held, a reason in Undecided, 0 Violations", r)
			}
		})
	}
}

// Every promise that can be broken is one of those that are shown.
func TestPromisesAreAllShown(t *testing.T) {
	var shown []history.Promise
	for _, p := range Promises() {
		shown = append(shown, p.Promise)
	}
	for _, p := range []history.Promise{history.LossReported, history.ReadersSee, history.Starts, history.SingleOwner, OneAnswer, InTime, Answers, Drains, Heals} {
		if !slices.Contains(shown, p) {
			t.Errorf("%s is not shown", p)
		}
	}
}

func TestUnreadable(t *testing.T) {
	good, err := os.ReadFile(save(t, good()))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(good), "\n")
	for name, row := range map[string]struct{ text, says string }{
		"empty":         {"", "does not name its run"},
		"not JSON":      {lines[0] + "what\n", "line 2"},
		"no run first":  {lines[1], "line 1: the run belongs in the first line"},
		"two runs":      {lines[0] + lines[0], "line 2: the run belongs in the first line"},
		"another":       {strings.Replace(lines[0], `"format":1`, `"format":99`, 1), "it has format 99"},
		"unknown lines": {lines[0] + "{}\n", "line 2: it has no known content"},
		"endless":       {lines[0] + strings.Repeat("x", maxLine+1), "line 2"},
	} {
		path := filepath.Join(t.TempDir(), "h")
		if err := os.WriteFile(path, []byte(row.text), 0o600); err != nil {
			t.Fatal(err)
		}
		var unreadable *HistoryError
		if _, err := Read(path); !errors.As(err, &unreadable) || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: got %v, want an HistoryError that says %q", name, err, row.says)
		}
	}
	// A line that a killed run could not finish is no fault of the others.
	path := filepath.Join(t.TempDir(), "h")
	if err := os.WriteFile(path, good[:len(good)-10], 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := Read(path)
	if err != nil || h.End != nil || len(h.Marks) != 5 {
		t.Fatalf("got %+v, %v", h, err)
	}
}

func TestSchedule(t *testing.T) {
	drawn := func(seed uint64, fast bool) (all []plan) {
		s := newSchedule(seed, Kinds(), fast)
		for range 500 {
			all = append(all, s.next())
		}
		return all
	}
	if !slices.Equal(drawn(1, true), drawn(1, true)) || slices.Equal(drawn(1, true), drawn(2, true)) {
		t.Error("a seed does not draw its own faults each time")
	}
	kinds, targets := map[Kind]int{}, map[Target]int{}
	short, long := 0, 0
	for _, p := range drawn(3, false) {
		kinds[p.kind]++
		targets[p.target]++
		if p.lasts < 10600*time.Millisecond {
			short++
		} else {
			long++
		}
		if (p.kind == Spoil) != (p.target == Network) {
			t.Errorf("got %+v", p)
		}
		if p.quiet <= 0 || p.lasts > longestStop/2 {
			t.Errorf("it waits %s and lasts %s", p.quiet, p.lasts)
		}
	}
	if len(kinds) != len(Kinds()) || len(targets) != 4 || short < 100 || long < 50 {
		t.Errorf("got %v %v, %d short and %d long", kinds, targets, short, long)
	}
}

func TestParseKinds(t *testing.T) {
	if all, err := ParseKinds(""); err != nil || !slices.Equal(all, Kinds()) {
		t.Errorf("got %v, %v", all, err)
	}
	if two, err := ParseKinds("stop, kill,stop"); err != nil || !slices.Equal(two, []Kind{Stop, Kill}) {
		t.Errorf("got %v, %v", two, err)
	}
	for _, bad := range []string{"kil", "kill,,stop", ","} {
		if list, err := ParseKinds(bad); err == nil {
			t.Errorf("%q is %v", bad, list)
		}
	}
}

func TestOptions(t *testing.T) {
	fine := Options{Nodes: 3, For: time.Second, Faults: Kinds()}
	if err := fine.Check(); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*Options){
		func(o *Options) { o.Nodes = 1 }, func(o *Options) { o.Nodes = MaxNodes + 1 }, func(o *Options) { o.For = 0 },
		func(o *Options) { o.Slack = -1 }, func(o *Options) { o.Faults = nil },
	} {
		o := fine
		change(&o)
		if o.Check() == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
