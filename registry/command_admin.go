package registry

import "maps"

// DrainNode says whether a node takes new sessions. It stands until it is said
// otherwise, over restarts too.
type DrainNode struct {
	Proposal `json:"-"`
	ID       NodeID `json:"id"`
	Draining bool   `json:"draining"`
}

// LabelNode gives a node its labels. From then on a registration does not change
// them, until a LabelNode without labels leaves them to the node again.
type LabelNode struct {
	Proposal `json:"-"`
	ID       NodeID            `json:"id"`
	Labels   map[string]string `json:"labels,omitempty"`
}

// TendResult says what became of a DrainNode, LabelNode or RemoveNode.
type TendResult string

const (
	// NodeTended: it was done.
	NodeTended TendResult = "done"
	// NodeUnknown: there is no such node.
	NodeUnknown TendResult = "not_found"
	// NodeServing: the node may still serve, so it cannot be removed.
	NodeServing TendResult = "serving"
)

// TendOutcome answers DrainNode, LabelNode and RemoveNode. Node is the record as
// it is now, or was last. Lost counts the sessions lost by a removal.
type TendOutcome struct {
	Result TendResult `json:"result"`
	Node   Node       `json:"node,omitzero"`
	Lost   int        `json:"lost,omitempty"`
}

func (DrainNode) kind() kind { return kindDrainNode }

func (c DrainNode) bounds() error { return checkBounds(isToken(string(c.ID), maxText)) }

func (c DrainNode) apply(t tables, _ moment) any {
	return t.tend(c.ID, func(n *Node) { n.Draining = c.Draining })
}

func (LabelNode) kind() kind { return kindLabelNode }

func (c LabelNode) bounds() error {
	return checkBounds(isToken(string(c.ID), maxText), IsLabels(c.Labels))
}

func (c LabelNode) apply(t tables, _ moment) any {
	return t.tend(c.ID, func(n *Node) { n.Labels, n.Labelled = maps.Clone(c.Labels), len(c.Labels) > 0 })
}

func (t tables) tend(id NodeID, change func(*Node)) TendOutcome {
	have := t.node(id)
	if have == nil {
		return TendOutcome{Result: NodeUnknown}
	}
	n := have.clone()
	change(&n)
	t.put(tableNodes, &n)
	return TendOutcome{Result: NodeTended, Node: n.clone()}
}

// RemoveNode forgets a node and what it had built. Its sessions are lost, with LossNodeRemoved. A node
// that may still serve is not removed, unless it asks itself and says by its
// present life that it has stopped. Should the id register again, its lives are
// numbered on from the last.
type RemoveNode struct {
	Proposal `json:"-"`
	ID       NodeID `json:"id"`
	// Stopped is the life that has stopped serving; 0 where that is not known.
	Stopped Incarnation `json:"stopped,omitempty"`
}

func (RemoveNode) kind() kind { return kindRemoveNode }

func (c RemoveNode) bounds() error { return checkBounds(isToken(string(c.ID), maxText)) }

func (c RemoveNode) apply(t tables, m moment) any {
	n := t.node(c.ID)
	if n == nil {
		return TendOutcome{Result: NodeUnknown}
	}
	if n.State != NodeExpired && n.Incarnation != c.Stopped {
		return TendOutcome{Result: NodeServing, Node: n.clone()}
	}
	lost := t.loseAll(c.ID, LossNodeRemoved, m)
	t.remove(tableNodes, n)
	t.dropBuilds(c.ID)
	t.endLives(n.Incarnation)
	t.raiseLevel()
	return TendOutcome{Result: NodeTended, Node: n.clone(), Lost: lost}
}

// endLives makes sure that no later registration gets a life up to this one.
func (t tables) endLives(last Incarnation) {
	now := t.cluster()
	if now == nil {
		return // the first command of every mesh gives it its identity
	}
	next := *now
	next.LastLife = max(next.LastLife, last)
	t.put(tableCluster, &next)
}

// loseAll loses the sessions of a node that are not lost yet, and counts them.
func (t tables) loseAll(id NodeID, why LossReason, m moment) int {
	lost := 0
	for _, s := range t.sessionsOn(id) {
		if s.State != SessionLost {
			t.lose(s, why, m)
			lost++
		}
	}
	return lost
}
