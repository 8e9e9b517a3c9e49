package registry

// RegisterNode begins a new incarnation of a node. All sessions of earlier incarnations are
// lost, with LossNodeRestarted; they keep their keys and names.
type RegisterNode struct {
	Proposal `json:"-"`
	ID       NodeID `json:"id"`
	// Name is for people; Addr is where other nodes reach its mesh, as host:port.
	Name string `json:"name,omitempty"`
	Addr string `json:"addr,omitempty"`
	// Labels are the node's own; they do not replace those set by LabelNode.
	Labels map[string]string `json:"labels,omitempty"`
	// Voter says whether the node was a voter when it registered.
	Voter bool `json:"voter,omitempty"`
	// HTTP is the address of its HTTP server.
	HTTP      string   `json:"http,omitempty"`
	Version   string   `json:"version,omitempty"`
	Languages []string `json:"languages,omitempty"`
	Capacity  Capacity `json:"capacity,omitzero"`
	// Level is the highest feature level that the node supports; the registry fills it in.
	Level uint8 `json:"level,omitempty"`
}

// RegisterOutcome holds the new incarnation, and how many sessions were lost by the
// registration, which is never refused.
type RegisterOutcome struct {
	Incarnation Incarnation `json:"incarnation"`
	// Lost counts the sessions of the node's earlier incarnation.
	Lost int `json:"lost"`
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

// MarkNode records what the leader concluded about a node's lease. NodeUnreachable makes its
// sessions unreachable and NodeUp makes them live again. NodeExpired ends the incarnation for
// good; its sessions are lost, with LossNodeExpired.
type MarkNode struct {
	Proposal    `json:"-"`
	ID          NodeID      `json:"id"`
	Incarnation Incarnation `json:"incarnation"`
	State       NodeState   `json:"state"`
	// Stopped says that the node has shut down; its sessions are then lost with
	// LossNodeStopped.
	Stopped bool `json:"stopped,omitempty"`
}

// MarkNodeResult is the result of a MarkNode.
type MarkNodeResult string

const (
	// NodeMarked: the node has the requested state.
	NodeMarked MarkNodeResult = "marked"
	// NodeNotCurrent: the node is unknown, has another incarnation, or is expired.
	NodeNotCurrent MarkNodeResult = "not_current"
)

// MarkNodeOutcome answers MarkNode. Sessions counts the sessions that changed.
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

// applyNodeState changes a session according to the new state of its node, and reports
// whether it changed.
func (t tables) applyNodeState(s *Session, c MarkNode, m moment) bool {
	changed := *s
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
		changed.State = SessionUnreachable
	default:
		changed.State = SessionLive
	}
	if changed.State == s.State {
		return false
	}
	t.put(tableSessions, &changed)
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
