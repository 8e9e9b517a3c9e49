package registry

import "maps"

// DrainNode sets whether a node is draining, that is, takes no new sessions. The setting
// survives restarts of the node.
type DrainNode struct {
	Proposal `json:"-"`
	ID       NodeID `json:"id"`
	Draining bool   `json:"draining"`
}

// LabelNode sets the labels of a node. Registrations then no longer change them, until a
// LabelNode without labels leaves them to the node again.
type LabelNode struct {
	Proposal `json:"-"`
	ID       NodeID            `json:"id"`
	Labels   map[string]string `json:"labels,omitempty"`
}

// NodeResult is the result of a DrainNode, LabelNode or RemoveNode.
type NodeResult string

const (
	// NodeChanged: it was done.
	NodeChanged NodeResult = "done"
	// NodeUnknown: there is no such node.
	NodeUnknown NodeResult = "not_found"
	// NodeServing: the node may still serve, so it cannot be removed.
	NodeServing NodeResult = "serving"
)

// NodeOutcome answers DrainNode, LabelNode and RemoveNode. Node is the current record, or the
// last one of a removed node. Lost counts the sessions lost by a removal.
type NodeOutcome struct {
	Result NodeResult `json:"result"`
	Node   Node       `json:"node,omitzero"`
	Lost   int        `json:"lost,omitempty"`
}

func (DrainNode) kind() kind { return kindDrainNode }

func (c DrainNode) bounds() error { return checkBounds(isToken(string(c.ID), maxText)) }

func (c DrainNode) apply(t tables, _ moment) any {
	return t.changeNode(c.ID, func(n *Node) { n.Draining = c.Draining })
}

func (LabelNode) kind() kind { return kindLabelNode }

func (c LabelNode) bounds() error {
	return checkBounds(isToken(string(c.ID), maxText), IsLabels(c.Labels))
}

func (c LabelNode) apply(t tables, _ moment) any {
	return t.changeNode(c.ID, func(n *Node) { n.Labels, n.Labelled = maps.Clone(c.Labels), len(c.Labels) > 0 })
}

// changeNode changes the record of a node, if there is one.
func (t tables) changeNode(id NodeID, change func(*Node)) NodeOutcome {
	have := t.node(id)
	if have == nil {
		return NodeOutcome{Result: NodeUnknown}
	}
	n := have.clone()
	change(&n)
	t.put(tableNodes, &n)
	return NodeOutcome{Result: NodeChanged, Node: n.clone()}
}

// RemoveNode removes a node and its built environments from the records. Its sessions are
// lost, with LossNodeRemoved. A node that is not expired is refused, unless Stopped is its
// current incarnation. If the id registers again, its incarnations continue from the last.
type RemoveNode struct {
	Proposal `json:"-"`
	ID       NodeID `json:"id"`
	// Stopped is the incarnation that has stopped serving, if the node itself asks; else 0.
	Stopped Incarnation `json:"stopped,omitempty"`
}

func (RemoveNode) kind() kind { return kindRemoveNode }

func (c RemoveNode) bounds() error { return checkBounds(isToken(string(c.ID), maxText)) }

func (c RemoveNode) apply(t tables, m moment) any {
	n := t.node(c.ID)
	if n == nil {
		return NodeOutcome{Result: NodeUnknown}
	}
	if n.State != NodeExpired && n.Incarnation != c.Stopped {
		return NodeOutcome{Result: NodeServing, Node: n.clone()}
	}
	lost := t.loseAll(c.ID, LossNodeRemoved, m)
	t.remove(tableNodes, n)
	t.dropBuilds(c.ID)
	t.endLives(n.Incarnation)
	t.raiseLevel()
	return NodeOutcome{Result: NodeChanged, Node: n.clone(), Lost: lost}
}

// endLives makes sure that every later registration gets a higher incarnation.
func (t tables) endLives(last Incarnation) {
	now := t.cluster()
	if now == nil {
		return // cannot happen: the first command of every mesh creates the row
	}
	next := *now
	next.LastLife = max(next.LastLife, last)
	t.put(tableCluster, &next)
}

// loseAll marks all sessions of a node as lost, and counts those that were not lost before.
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
