package registry

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestDecide(t *testing.T) {
	l, err := LeaseConfig{}.validate()
	if err != nil {
		t.Fatal(err)
	}
	nodes := func(silent ...time.Duration) []silence {
		var all []silence
		for i, s := range silent {
			state := NodeUp
			if s > l.silenceLimit() {
				state = NodeUnreachable
			}
			all = append(all, silence{NodeID(fmt.Sprint(i)), 1, state, s, 0})
		}
		return all
	}
	over := l.silenceLimit() + l.Grace + time.Second
	for name, c := range map[string]struct {
		all  []silence
		held time.Duration
		due  int
		hold bool
	}{
		"all well":                   {nodes(0, 0, 0), 0, 0, false},
		"one of three":               {nodes(0, 0, over), 0, 1, false},
		"two of three":               {nodes(0, over, over), 0, 0, true},
		"two of four":                {nodes(0, 0, over, over), 0, 0, true},
		"two of five":                {nodes(0, 0, 0, over, over), 0, 2, false},
		"one of one":                 {nodes(over), 0, 1, false},
		"one of two":                 {nodes(0, over), 0, 1, false},
		"long enough":                {nodes(0, over, over), l.HoldFor, 2, true},
		"not quite":                  {nodes(0, over, over), l.HoldFor - 1, 0, true},
		"one after the other":        {nodes(0, l.silenceLimit()+1, l.silenceLimit()+2*l.TTL), 0, 1, false},
		"missed, and not yet over":   {nodes(0, l.silenceLimit()+1), 0, 0, false},
		"nobody":                     {nil, 0, 0, false},
		"just not missed":            {nodes(0, l.silenceLimit()-1), 0, 0, false},
		"one up to mark unreachable": {[]silence{{"a", 1, NodeUp, 0, 0}, {"b", 1, NodeUp, over, 0}}, 0, 1, false},
		// The time without a leader counts for the grace, and never for the lease.
		"leaderless and missed":       {[]silence{{"a", 1, NodeUp, 0, 0}, {"b", 1, NodeUnreachable, l.silenceLimit(), l.Grace}}, 0, 1, false},
		"leaderless and not missed":   {[]silence{{"a", 1, NodeUp, 0, 0}, {"b", 1, NodeUnreachable, l.silenceLimit() - 1, 10 * over}}, 0, 0, false},
		"leaderless, in its grace":    {[]silence{{"a", 1, NodeUp, 0, 0}, {"b", 1, NodeUnreachable, l.silenceLimit() + l.Grace/2 - 1, l.Grace / 2}}, 0, 0, false},
		"leaderless, after its grace": {[]silence{{"a", 1, NodeUp, 0, 0}, {"b", 1, NodeUnreachable, l.silenceLimit() + l.Grace/2, l.Grace / 2}}, 0, 1, false},
	} {
		due, _, hold, again := l.decide(c.all, c.held)
		if again > l.checkEvery() || len(due) > 0 && again != 0 {
			t.Errorf("%s: the next check in %s", name, again)
		}
		if len(due) != c.due || hold != c.hold {
			t.Errorf("%s: %+v, hold %v", name, due, hold)
		}
	}
}

// An incarnation is barred in the same step in which its expiry is decided: a renewal that
// comes between the decision and its commit is not granted.
func TestAnExpiringLifeIsGrantedNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := LeaseConfig{}.validate()
		if err != nil {
			t.Fatal(err)
		}
		var of leaseTable
		of.restart(0)
		nodes := []*Node{{ID: "n1", Incarnation: 1, State: NodeUp}, {ID: "n2", Incarnation: 4, State: NodeUnreachable}}
		quiet := func(string, ...any) {}
		of.due(nodes, l, quiet) // the lives are known from here on
		time.Sleep(l.silenceLimit() + l.Grace)
		if err := of.grant(renewal{ID: "n1", Incarnation: 1}); err != nil {
			t.Fatal(err)
		}
		due, _ := of.due(nodes, l, quiet)
		if len(due) != 1 || due[0].ID != "n2" || due[0].State != NodeExpired {
			t.Fatalf("%+v", due)
		}
		if err := of.grant(renewal{ID: "n2", Incarnation: 4}); !errors.Is(err, errExpiring) {
			t.Fatalf("granted: %v", err)
		}
		if err := of.grant(renewal{ID: "n2", Incarnation: 5}); err != nil {
			t.Fatalf("the next life: %v", err)
		}
	})
}
