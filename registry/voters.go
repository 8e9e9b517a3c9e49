package registry

import (
	"cmp"
	"slices"
)

// standing is what the leader knows of a member when it plans.
type standing struct {
	id    NodeID
	voter bool
	// self is the leader itself, which is always well.
	self bool
	// well: it answered the last time it was asked.
	well bool
	// ready: it has been well for long enough and has nearly the whole log.
	ready bool
	// dead: it has been silent for so long that its vote may be given away.
	dead bool
}

// step is one change of who votes.
type step struct {
	id      NodeID
	promote bool
}

// plan gives the next change of who votes, if one is due. It is a pure function.
//
// The number of voters is odd, except between the two steps of a change: 1 with
// one or two nodes, 3 with three or four, 5 with more, at most most. It grows only
// when as many nodes are ready as make it odd again. It shrinks only when there are
// fewer members; a dead voter among three stays, since two would be no safer.
func plan(members []standing, most int) (step, bool) {
	var voters, dead, spare []standing
	live := 0
	for _, m := range members {
		if !m.dead {
			live++
		}
		switch {
		case m.voter && m.dead:
			voters, dead = append(voters, m), append(dead, m)
		case m.voter:
			voters = append(voters, m)
		case m.ready:
			spare = append(spare, m)
		}
	}
	slices.SortFunc(spare, func(a, b standing) int { return cmp.Compare(a.id, b.id) })
	grow, shrink := min(votersFor(live), most), min(votersFor(len(members)), most)
	switch n := len(voters); {
	case n%2 == 0 && n < grow && len(spare) > 0:
		return step{spare[0].id, true}, true
	case n%2 == 0:
		return demote(voters)
	case len(dead) > 0 && len(spare) > 0:
		return step{spare[0].id, true}, true
	case len(dead) > 0 && n > 3:
		return demote(voters)
	case n+2 <= grow && len(spare) >= 2:
		return step{spare[0].id, true}, true
	case n > shrink:
		return demote(voters)
	}
	return step{}, false
}

// votersFor is how many of so many nodes vote.
func votersFor(nodes int) int {
	switch {
	case nodes >= 5:
		return 5
	case nodes >= 3:
		return 3
	}
	return 1
}

// demote takes the vote of the least useful voter, never of the leader.
func demote(voters []standing) (step, bool) {
	others := slices.DeleteFunc(slices.Clone(voters), func(m standing) bool { return m.self })
	if len(others) == 0 {
		return step{}, false
	}
	least := slices.MinFunc(others, func(a, b standing) int {
		return cmp.Or(trueFirst(a.dead, b.dead), trueFirst(!a.well, !b.well), cmp.Compare(b.id, a.id))
	})
	return step{least.id, false}, true
}

// trueFirst orders true before false.
func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
