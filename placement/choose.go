package placement

import (
	"slices"

	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// Candidate is what Choose knows about a node.
type Candidate struct {
	ID          registry.NodeID
	Incarnation registry.Incarnation // the node's current incarnation
	// Up says that the node's lease is valid, as far as this node knows.
	Up bool
	// Draining nodes take no new sessions.
	Draining  bool
	Languages []string
	Labels    map[string]string
	// Sessions and Running count the node's sessions and running calls. The limits
	// MaxSessions and MaxRunning are unlimited when 0.
	Sessions, MaxSessions int
	Running, MaxRunning   int
	// NoSessions and NoCalls are set while the node is short of memory and accepts no
	// new sessions or no calls at all.
	NoSessions, NoCalls bool
	// Holds counts the live sessions of the call's actor that the node owns.
	Holds int
	// Built says that the call's environment is already built on the node.
	Built bool
}

// Want is what the call requires of a node.
type Want struct {
	Language surfaces.Language
	// Labels must all be on the node, with these values.
	Labels map[string]string
	// Session is set when the node is chosen for a session, not for a stateless call.
	Session bool
	// Self is the node that chooses.
	Self registry.NodeID
}

func (c *Candidate) fits(w Want) bool {
	for k, v := range w.Labels {
		if have, ok := c.Labels[k]; !ok || have != v {
			return false
		}
	}
	return c.Up && !c.Draining && slices.Contains(c.Languages, string(w.Language))
}

func (c *Candidate) hasRoom(w Want) bool {
	if w.Session {
		return !c.NoSessions && (c.MaxSessions == 0 || c.Sessions < c.MaxSessions)
	}
	return !c.NoCalls && (c.MaxRunning == 0 || c.Running < c.MaxRunning)
}

// load weighs a running call as much as four sessions.
func (c *Candidate) load() int { return 4*c.Running + c.Sessions }

// Unfit says why no node can take a call; 0 means that one can.
type Unfit uint8

const (
	// NoNode: no node that is up and not draining has the language and the labels.
	NoNode Unfit = iota + 1
	// NoRoom: every node that has them is full.
	NoRoom
)

// Choose picks the node for a new session or a stateless call. draw returns a random
// number in [0, n); apart from draw the function is pure.
//
// Among the nodes that fit and have room, those that have built the environment come
// first. Of these, a session goes to the node with most of the actor's other sessions,
// because they share a workspace there, and otherwise to the less loaded of two nodes
// drawn at random. A stateless call stays on this node if it is among them. Ties go to
// this node, which saves a network hop.
func Choose(w Want, nodes []Candidate, draw func(n int) int) (Candidate, Unfit) {
	var fit, room []Candidate
	for _, c := range nodes {
		if c.fits(w) {
			fit = append(fit, c)
			if c.hasRoom(w) {
				room = append(room, c)
			}
		}
	}
	switch {
	case len(fit) == 0:
		return Candidate{}, NoNode
	case len(room) == 0:
		return Candidate{}, NoRoom
	}
	room = best(room, func(c *Candidate) int {
		if c.Built {
			return 1
		}
		return 0
	})
	if here := slices.IndexFunc(room, func(c Candidate) bool { return c.ID == w.Self }); here >= 0 && !w.Session {
		return room[here], 0
	}
	if w.Session {
		room = best(room, func(c *Candidate) int { return c.Holds })
	}
	return lessLoaded(w, room, draw), 0
}

// best returns the candidates that share the highest rank.
func best(from []Candidate, rank func(*Candidate) int) []Candidate {
	var kept []Candidate
	top := 0
	for i := range from {
		switch r := rank(&from[i]); {
		case r > top:
			top, kept = r, append(kept[:0], from[i])
		case r == top:
			kept = append(kept, from[i])
		}
	}
	return kept
}

// lessLoaded draws two candidates at random and returns the less loaded one.
func lessLoaded(w Want, from []Candidate, draw func(n int) int) Candidate {
	if len(from) == 1 {
		return from[0]
	}
	i := draw(len(from))
	j := draw(len(from) - 1)
	if j >= i {
		j++
	}
	a, b := from[i], from[j]
	if b.load() < a.load() || b.load() == a.load() && b.ID == w.Self {
		return b
	}
	return a
}
