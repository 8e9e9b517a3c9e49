package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/locusrun/locus/placement/history"
)

// Report is the result of checking a history.
type Report struct {
	// Held says that no promise was violated and that there was enough data.
	Held bool `json:"held"`
	// Undecided says why a history without violations proves nothing; empty otherwise.
	Undecided  string              `json:"undecided,omitempty"`
	Violations []history.Violation `json:"violations"`

	// History is the path of the file, Again the command to repeat the seed.
	History string  `json:"history"`
	Again   string  `json:"again"`
	Seed    uint64  `json:"seed"`
	Nodes   int     `json:"nodes"`
	Fast    bool    `json:"fast"`
	Version string  `json:"version"`
	TookS   float64 `json:"took_s"`
	SlackS  float64 `json:"slack_s"`

	Calls int `json:"calls"`
	// Outcomes counts calls by the code of their answer: "done" without a code, and the
	// kind of problem without an answer.
	Outcomes map[string]int `json:"outcomes"`
	// Asked is how many answered calls were asked for again, Same how many of those gave
	// the same outcome.
	Asked int `json:"asked_again"`
	Same  int `json:"told_again"`
	// Lost is how many sessions were rebuilt, Told how many answers reported a loss,
	// Retried how many calls had a second attempt.
	Lost    int `json:"sessions_lost"`
	Told    int `json:"losses_told"`
	Retried int `json:"retried"`
	// LongestMS is the longest wait for an answer. LatestMS is how long after its deadline
	// the latest answer came; 0 if none was late.
	LongestMS float64 `json:"longest_ms"`
	LatestMS  float64 `json:"latest_ms"`
	// HealedMS is the longest time that a final check took to succeed.
	HealedMS float64     `json:"healed_ms"`
	Faults   []FaultRows `json:"faults"`
}

// FaultRows summarises the faults of one kind on one target.
type FaultRows struct {
	Kind   Kind   `json:"kind"`
	Target Target `json:"target"`
	Count  int    `json:"count"`
	// First is how long after a fault the first good answer came from a session on the
	// affected node, to a call made after the fault through another node; in milliseconds.
	// Answered is how many faults have such an answer.
	Answered int     `json:"answered"`
	LeastMS  float64 `json:"first_least_ms"`
	MedianMS float64 `json:"first_median_ms"`
	MostMS   float64 `json:"first_most_ms"`
}

// Check checks a history. path is where it was read from.
func Check(h *History, path string) Report {
	r := Report{
		Violations: []history.Violation{}, History: path, Again: command(h.Run), Seed: h.Run.Seed, Nodes: len(h.Run.Nodes), Fast: h.Run.Fast,
		Version: h.Run.Version, SlackS: h.Run.SlackS, Calls: len(h.Calls), Outcomes: map[string]int{}, Faults: faultRows(h),
	}
	for _, v := range violations(h) {
		if v.Undecided {
			r.Undecided = v.Text
			continue
		}
		r.Violations = append(r.Violations, v)
	}
	r.count(h)
	switch {
	case h.End == nil:
		r.Undecided = "the history has no end: the run was killed, or is still going on"
	case h.End.Interrupted:
		r.Undecided = "the run was interrupted before it was checked that the mesh recovers"
	case r.Outcomes["done"] == 0 || len(h.Faults) == 0:
		r.Undecided = "there was no fault, or no call was answered"
	}
	r.Held = len(r.Violations) == 0 && r.Undecided == ""
	return r
}

// command returns the command line that repeats the same faults and calls.
func command(run Run) string {
	parts := []string{"locus chaos run", fmt.Sprintf("--seed %d --nodes %d --for %s", run.Seed, len(run.Nodes), run.For())}
	if run.Fast {
		parts = append(parts, "--fast")
	}
	if len(run.Faults) < len(Kinds()) {
		var kinds []string
		for _, k := range run.Faults {
			kinds = append(kinds, string(k))
		}
		parts = append(parts, "--faults "+strings.Join(kinds, ","))
	}
	if run.Slack() != DefaultSlack {
		parts = append(parts, "--slack "+run.Slack().String())
	}
	return strings.Join(parts, " ")
}

func (r *Report) count(h *History) {
	generations := map[string]map[string]bool{}
	var until int64
	for _, c := range h.Calls {
		until = max(until, c.Ended)
		r.LongestMS = max(r.LongestMS, millis(took(c)))
		if c.Answer == nil {
			r.Outcomes[string(c.Problem.Kind)]++
			continue
		}
		r.LatestMS = max(r.LatestMS, millis(h.late(c)))
		outcome := "done"
		if c.Answer.Code != nil {
			outcome = string(*c.Answer.Code)
		}
		r.Outcomes[outcome]++
		if c.Answer.StateLost.Loss != nil {
			r.Told++
		}
		if c.Answer.Attempts > 1 {
			r.Retried++
		}
		if a := c.Again; a != nil {
			r.Asked++
			if a.Answer != nil && a.Answer.Code == nil {
				r.Same++
			}
		}
		if s, _ := seen(c); s.Session != "" && s.Generation != "" {
			if generations[s.Session] == nil {
				generations[s.Session] = map[string]bool{}
			}
			generations[s.Session][s.Generation] = true
		}
	}
	for _, g := range generations {
		r.Lost += len(g) - 1
	}
	for _, l := range h.Healed {
		r.HealedMS = max(r.HealedMS, millis(time.Duration(l.Ended-l.Began)))
	}
	if h.End != nil {
		until = h.End.At
	}
	r.TookS = time.Duration(until).Seconds()
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// faultRows summarises the faults, in the order of Kinds.
func faultRows(h *History) (rows []FaultRows) {
	type row struct {
		kind   Kind
		target Target
	}
	counts := map[row]int{}
	firsts := map[row][]float64{}
	for _, f := range h.Faults {
		at := row{f.Kind, f.Target}
		counts[at]++
		if first, ok := h.firstAnswer(f); ok {
			firsts[at] = append(firsts[at], millis(first))
		}
	}
	order := slices.SortedFunc(maps.Keys(counts), func(a, b row) int {
		if a.kind != b.kind {
			return slices.Index(Kinds(), a.kind) - slices.Index(Kinds(), b.kind)
		}
		return strings.Compare(string(a.target), string(b.target))
	})
	for _, at := range order {
		f := FaultRows{Kind: at.kind, Target: at.target, Count: counts[at], Answered: len(firsts[at])}
		if took := firsts[at]; len(took) > 0 {
			slices.Sort(took)
			f.LeastMS, f.MedianMS, f.MostMS = took[0], took[len(took)/2], took[len(took)-1]
		}
		rows = append(rows, f)
	}
	return rows
}

// firstAnswer returns how long after a fault the first good answer came from a session on
// the affected node, to a call made after the fault through another node; false if there
// was none.
func (h *History) firstAnswer(f Fault) (first time.Duration, ok bool) {
	// The place of a session is the node of its latest answer before the fault.
	type place struct {
		node int
		at   int64
	}
	were := map[string]place{}
	for _, c := range h.Calls {
		if s := c.Arguments.SessionName; s != nil && c.Ended < f.Began && c.Answer != nil && c.Answer.Code == nil && c.Ended > were[*s].at {
			were[*s] = place{c.Answer.Node, c.Ended}
		}
	}
	for _, c := range h.Calls {
		s := c.Arguments.SessionName
		if s == nil || c.Began < f.Began || c.Answer == nil || c.Answer.Code != nil || c.Node == f.Node {
			continue
		}
		if was, known := were[*s]; !known || f.Node != 0 && was.node != f.Node {
			continue
		}
		if took := time.Duration(c.Ended - f.Began); !ok || took < first {
			first, ok = took, true
		}
	}
	return first, ok
}
