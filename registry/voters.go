package registry

import (
	"cmp"
	"slices"
)

// memberStatus is what the leader knows about a member when it plans.
type memberStatus struct {
	id    NodeID
	voter bool
	// self marks the leader itself, which is always responsive.
	self bool
	// responsive: it answered the last probe.
	responsive bool
	// ready to vote: it has been responsive for Config.StableFor and has nearly the whole log.
	ready bool
	// dead: it has been silent for Config.ReplaceAfter, so its vote may go to another.
	dead bool
}

// voterChange is one promotion to voter or demotion to non-voter.
type voterChange struct {
	id      NodeID
	promote bool // else the node's vote is taken
}

// planVoters returns the next change of the voters, if one is due. It is a pure function.
//
// There are 1 voter with one or two members, 3 with three or four, 5 with more, and never
// more than most. The number is even only between two changes. It grows only when enough
// members are ready to make it odd again. It shrinks only when there are fewer members. A
// dead voter is replaced as soon as another member is ready; without one, it is demoted if
// there are more than three voters, because two of three would be no safer.
func planVoters(members []memberStatus, most int) (voterChange, bool) {
	var voters, dead, spare []memberStatus
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
	slices.SortFunc(spare, func(a, b memberStatus) int { return cmp.Compare(a.id, b.id) })
	grow, shrink := min(votersFor(live), most), min(votersFor(len(members)), most)
	switch n := len(voters); {
	case n%2 == 0 && n < grow && len(spare) > 0:
		return voterChange{spare[0].id, true}, true
	case n%2 == 0:
		return demote(voters)
	case len(dead) > 0 && len(spare) > 0:
		return voterChange{spare[0].id, true}, true
	case len(dead) > 0 && n > 3:
		return demote(voters)
	case n+2 <= grow && len(spare) >= 2:
		return voterChange{spare[0].id, true}, true
	case n > shrink:
		return demote(voters)
	}
	return voterChange{}, false
}

// votersFor is the number of voters for a number of members.
func votersFor(nodes int) int {
	switch {
	case nodes >= 5:
		return 5
	case nodes >= 3:
		return 3
	}
	return 1
}

// demote picks the voter to demote: a dead one first, then an unresponsive one, then the one
// with the highest id; never the leader.
func demote(voters []memberStatus) (voterChange, bool) {
	others := slices.DeleteFunc(slices.Clone(voters), func(m memberStatus) bool { return m.self })
	if len(others) == 0 {
		return voterChange{}, false
	}
	least := slices.MinFunc(others, func(a, b memberStatus) int {
		return cmp.Or(trueFirst(a.dead, b.dead), trueFirst(!a.responsive, !b.responsive), cmp.Compare(b.id, a.id))
	})
	return voterChange{least.id, false}, true
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
