package placement

import (
	"slices"

	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// Candidate is a node as the choice of a place sees it.
type Candidate struct {
	ID        registry.NodeID
	Life      registry.Incarnation
	Up        bool
	Draining  bool
	Languages []string
	Labels    map[string]string
	// Sessions and Running are what the node has, MaxSessions and MaxRunning what it
	// may have; 0 is no bound.
	Sessions, MaxSessions int
	Running, MaxRunning   int
	// NoSessions and NoCalls say that the node has no memory for more.
	NoSessions, NoCalls bool
	// Holds counts the sessions of the asking actor that the node owns.
	Holds int
	// Built says that the environment is there already.
	Built bool
}

// Want is what a place is wanted for.
type Want struct {
	Language surfaces.Language
	// Labels are those that the node must have.
	Labels map[string]string
	// Session is set when a session is to live there.
	Session bool
	// Self is the node that asks.
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

func (c *Candidate) room(w Want) bool {
	if w.Session {
		return !c.NoSessions && (c.MaxSessions == 0 || c.Sessions < c.MaxSessions)
	}
	return !c.NoCalls && (c.MaxRunning == 0 || c.Running < c.MaxRunning)
}

// load orders nodes by how much they have to do.
func (c *Candidate) load() int { return 4*c.Running + c.Sessions }

// Unfit says why no node can take a call.
type Unfit uint8

const (
	// NoNode: no living node that takes new work has the language and the labels.
	NoNode Unfit = iota + 1
	// NoRoom: those that have it are full.
	NoRoom
)

// Choose picks the node for a new session or a stateless call. draw gives a random
// number below n; nothing else is random, and nothing else is looked at.
//
// Any call goes where its environment is built, if it is built anywhere. A session
// then goes where the actor's other sessions are, since they share a workspace, and
// otherwise to the less loaded of two nodes that are drawn. A stateless call then
// stays here while there is room. Where two nodes are as good, the one that asks
// saves a hop.
func Choose(w Want, nodes []Candidate, draw func(n int) int) (Candidate, Unfit) {
	var fit, room []Candidate
	for _, c := range nodes {
		if c.fits(w) {
			fit = append(fit, c)
			if c.room(w) {
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
	return lighter(w, room, draw), 0
}

// best keeps the candidates of the highest rank.
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

// lighter draws two of the candidates and gives the one with less to do.
func lighter(w Want, from []Candidate, draw func(n int) int) Candidate {
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
