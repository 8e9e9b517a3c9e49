package registry

// RegisterNode begins a new life of a node. Every session of an earlier life is
// lost at once, with LossNodeRestarted; keys and names are kept.
type RegisterNode struct {
	Proposal `json:"-"`
	ID       NodeID `json:"id"`
	Name     string `json:"name,omitempty"`
	Addr     string `json:"addr,omitempty"`
	// Labels are what the node says of itself; they do not replace an operator's.
	Labels map[string]string `json:"labels,omitempty"`
	// Voter is what the node was when it registered.
	Voter     bool     `json:"voter,omitempty"`
	HTTP      string   `json:"http,omitempty"`
	Version   string   `json:"version,omitempty"`
	Languages []string `json:"languages,omitempty"`
	Capacity  Capacity `json:"capacity,omitzero"`
	// Level is the highest feature level that the node knows; the registry fills it in.
	Level uint8 `json:"level,omitempty"`
}

// RegisterOutcome tells which life began, and how many sessions of earlier ones
// were lost by it. A registration is never refused.
type RegisterOutcome struct {
	Incarnation Incarnation `json:"incarnation"`
	Lost        int         `json:"lost"`
}

func (RegisterNode) kind() kind { return kindRegisterNode }

func (c RegisterNode) bounds() error {
	ok := len(c.Languages) <= MaxLabels
	for _, l := range c.Languages {
		ok = ok && isToken(l, maxReason)
	}
	return checkBounds(ok, isToken(string(c.ID), maxText), isText(c.Name, maxText), isText(c.Addr, maxText), IsLabels(c.Labels),
		isText(c.HTTP, maxText), isText(c.Version, maxText),
		c.Capacity.MaxSessions >= 0 && c.Capacity.CPUs >= 0 && c.Capacity.MemoryBytes >= 0)
}

func (c RegisterNode) apply(t tables, m moment) any {
	n := Node{
		ID: c.ID, Name: c.Name, Addr: c.Addr, Labels: c.Labels, Voter: c.Voter, HTTP: c.HTTP, Version: c.Version,
		Languages: c.Languages, Capacity: c.Capacity, Level: c.Level, State: NodeUp, RegisteredAt: m.at,
	}
	if all := t.cluster(); all != nil {
		n.Incarnation = all.LastLife
	}
	if before := t.node(c.ID); before != nil {
		n.Incarnation = max(n.Incarnation, before.Incarnation)
		n.Draining = before.Draining
		if before.Labelled {
			n.Labels, n.Labelled = before.Labels, true
		}
	}
	n.Incarnation++
	n = n.clone()
	t.put(tableNodes, &n)
	t.raiseLevel()
	return RegisterOutcome{Incarnation: n.Incarnation, Lost: t.loseAll(c.ID, LossNodeRestarted, m)}
}

// MarkNode records what the leader concluded about a node's lease.
// NodeUnreachable holds its sessions, NodeUp gives them back, NodeExpired loses
// them, with LossNodeExpired, and ends that life for good.
type MarkNode struct {
	Proposal    `json:"-"`
	ID          NodeID      `json:"id"`
	Incarnation Incarnation `json:"incarnation"`
	State       NodeState   `json:"state"`
	// Stopped says that a life ends by the node's own will, which is what its
	// sessions are lost for: LossNodeStopped.
	Stopped bool `json:"stopped,omitempty"`
}

// MarkNodeResult says what became of a MarkNode.
type MarkNodeResult string

const (
	// NodeMarked means that the node has the state that was asked for.
	NodeMarked MarkNodeResult = "marked"
	// NodeNotCurrent means that the node is unknown, in another life, or expired.
	NodeNotCurrent MarkNodeResult = "not_current"
)

// MarkNodeOutcome answers MarkNode. Sessions counts those that changed.
type MarkNodeOutcome struct {
	Result   MarkNodeResult `json:"result"`
	Sessions int            `json:"sessions"`
}

func (MarkNode) kind() kind { return kindMarkNode }

func (c MarkNode) bounds() error {
	known := c.State == NodeUp || c.State == NodeUnreachable || c.State == NodeExpired
	return checkBounds(known, isLife(c.ID, c.Incarnation), !c.Stopped || c.State == NodeExpired)
}

func (c MarkNode) apply(t tables, m moment) any {
	n := t.node(c.ID)
	if n == nil || n.Incarnation != c.Incarnation || n.State == NodeExpired && c.State != NodeExpired {
		return MarkNodeOutcome{Result: NodeNotCurrent}
	}
	changed := 0
	for _, s := range t.sessionsOn(c.ID) {
		if t.applyNodeState(s, c, m) {
			changed++
		}
	}
	marked := *n
	marked.State = c.State
	t.put(tableNodes, &marked)
	return MarkNodeOutcome{Result: NodeMarked, Sessions: changed}
}

// follow moves a session after its node's state and reports whether it moved.
func (t tables) applyNodeState(s *Session, c MarkNode, m moment) bool {
	moved := *s
	switch {
	case s.State == SessionLost:
		return false
	case c.Stopped:
		t.lose(s, LossNodeStopped, m)
		return true
	case c.State == NodeExpired:
		t.lose(s, LossNodeExpired, m)
		return true
	case c.State == NodeUnreachable:
		moved.State = SessionUnreachable
	default:
		moved.State = SessionLive
	}
	if moved.State == s.State {
		return false
	}
	t.put(tableSessions, &moved)
	return true
}

// lose records that a session's state is gone. The record stays under its epoch.
func (t tables) lose(s *Session, why LossReason, m moment) Session {
	lost := *s
	lost.State = SessionLost
	lost.Loss = Loss{Reason: why, At: m.at, Epoch: s.Epoch}
	t.put(tableSessions, &lost)
	return lost
}
