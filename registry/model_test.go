package registry

import (
	"maps"

	"github.com/locusrun/locus/surfaces"
)

// model defines what the registry should do, in maps and plain loops. It shares the records
// with the machine, and no code.
type model struct {
	nodes    map[NodeID]Node
	actors   map[string]Actor
	sessions map[surfaces.SessionKey]Session
	lastLife Incarnation // of nodes that were removed
	rest     rest
}

func newModel() *model {
	return &model{
		nodes: map[NodeID]Node{}, actors: map[string]Actor{}, sessions: map[surfaces.SessionKey]Session{}, rest: newRest(),
	}
}

func (m *model) up(id NodeID, life Incarnation) bool {
	return m.nodes[id].Incarnation == life && m.nodes[id].State == NodeUp
}

func (m *model) owns(s Session, g Grant) bool {
	return s.State == SessionLive && s.Owner == g.Node && s.Incarnation == g.Incarnation && s.Epoch == g.Epoch && m.up(g.Node, g.Incarnation)
}

func (m *model) holder(actor, name string) (Session, bool) {
	for _, s := range m.sessions {
		if name != "" && s.Key.Actor == actor && s.Name == name {
			return s, true
		}
	}
	return Session{}, false
}

func (m *model) lose(s Session, why LossReason, at Timestamp) Session {
	s.State, s.Loss = SessionLost, Loss{Reason: why, At: at, Epoch: s.Epoch}
	m.sessions[s.Key] = s
	return s
}

// do applies a command at an index and gives the outcome to expect.
func (m *model) do(c command, index uint64, at Timestamp) any {
	switch c := c.(type) {
	case RegisterNode:
		lost := 0
		for _, s := range m.sessions {
			if s.Owner == c.ID && s.State != SessionLost {
				m.lose(s, LossNodeRestarted, at)
				lost++
			}
		}
		before := m.nodes[c.ID]
		n := Node{ID: c.ID, Incarnation: before.Incarnation + 1, State: NodeUp, RegisteredAt: at, Labels: c.Labels, Draining: before.Draining}
		if m.lastLife >= n.Incarnation {
			n.Incarnation = m.lastLife + 1
		}
		if before.Labelled {
			n.Labels, n.Labelled = before.Labels, true
		}
		m.nodes[c.ID] = n
		return RegisterOutcome{n.Incarnation, lost}
	case MarkNode:
		return m.markNode(c, at)
	case ClaimSession:
		return m.claim(c, index, at)
	case MarkLost:
		s, ok := m.sessions[c.Key]
		if !ok {
			return MarkLostOutcome{Result: MarkNotFound}
		}
		if s.Epoch != c.Grant.Epoch || s.Owner != c.Grant.Node || s.Incarnation != c.Grant.Incarnation {
			return MarkLostOutcome{MarkStale, s}
		}
		if s.State == SessionLost {
			return MarkLostOutcome{AlreadyLost, s}
		}
		return MarkLostOutcome{MarkedLost, m.lose(s, c.Reason, at)}
	case RebuildSession:
		return m.rebuild(c, index, at)
	case AckLoss:
		s, ok := m.sessions[c.Key]
		if !ok {
			return AckOutcome{Result: AckNoLoss}
		}
		if !m.owns(s, c.Grant) {
			return AckOutcome{Result: AckStale}
		}
		if s.Loss.Epoch != c.Lost {
			return AckOutcome{Result: AckNoLoss}
		}
		if s.Loss.Told {
			return AckOutcome{AlreadyTold, s.Loss}
		}
		s.Loss.Told = true
		m.sessions[c.Key] = s
		return AckOutcome{TellLoss, s.Loss}
	case TouchSessions:
		var out TouchOutcome
		for _, touch := range c.Touches {
			s, ok := m.sessions[touch.Key]
			if !ok || !m.owns(s, Grant{c.Owner, c.Incarnation, touch.Epoch}) {
				out.Stale = append(out.Stale, touch.Key)
				continue
			}
			if touch.LastUsedAt > s.LastUsedAt {
				s.LastUsedAt = touch.LastUsedAt
			}
			if touch.Calls > s.Calls {
				s.Calls = touch.Calls
			}
			m.sessions[touch.Key] = s
			out.Touched++
		}
		return out
	case CloseSession:
		s, ok := m.sessions[c.Key]
		if !ok {
			return CloseOutcome{Result: CloseNotFound}
		}
		if c.Expected != 0 && c.Expected != s.Epoch || c.Grant != (Grant{}) && !m.owns(s, c.Grant) {
			return CloseOutcome{CloseStale, s}
		}
		delete(m.sessions, c.Key)
		s.State = SessionClosed
		return CloseOutcome{Closed, s}
	case RenameSession:
		s, ok := m.sessions[c.Key]
		if !ok {
			return RenameOutcome{Result: RenameNotFound}
		}
		if c.Expected != 0 && c.Expected != s.Epoch || c.Grant != (Grant{}) && !m.owns(s, c.Grant) {
			return RenameOutcome{RenameStale, s}
		}
		if other, taken := m.holder(c.Key.Actor, c.Name); taken && other.Key != c.Key {
			return RenameOutcome{RenameTaken, other}
		}
		s.Name = c.Name
		m.sessions[c.Key] = s
		return RenameOutcome{Renamed, s}
	}
	return m.doActor(c, at)
}

func (m *model) markNode(c MarkNode, at Timestamp) any {
	n, ok := m.nodes[c.ID]
	if !ok || n.Incarnation != c.Incarnation {
		return MarkNodeOutcome{Result: NodeNotCurrent}
	}
	if n.State == NodeExpired && c.State != NodeExpired {
		return MarkNodeOutcome{Result: NodeNotCurrent}
	}
	moved := 0
	for k, s := range m.sessions {
		if s.Owner != c.ID || s.State == SessionLost {
			continue
		}
		before := s.State
		switch c.State {
		case NodeUp:
			s.State = SessionLive
		case NodeUnreachable:
			s.State = SessionUnreachable
		case NodeExpired:
			why := LossNodeExpired
			if c.Stopped {
				why = LossNodeStopped
			}
			s = m.lose(s, why, at)
		}
		m.sessions[k] = s
		if s.State != before {
			moved++
		}
	}
	n.State = c.State
	m.nodes[c.ID] = n
	return MarkNodeOutcome{NodeMarked, moved}
}

func (m *model) claim(c ClaimSession, index uint64, at Timestamp) any {
	if !m.up(c.Owner, c.Incarnation) {
		return ClaimOutcome{Result: ClaimNotCurrent}
	}
	if m.nodes[c.Owner].Draining {
		return ClaimOutcome{Result: ClaimDraining}
	}
	if a, ok := m.actors[c.Key.Actor]; !ok || a.EndedAt != 0 {
		return ClaimOutcome{Result: ClaimNoActor}
	}
	s, exists := m.sessions[c.Key]
	if c.Expected != 0 && c.Expected != s.Epoch { // covers what does not exist: its epoch is 0
		return ClaimOutcome{ClaimStale, s}
	}
	if exists && s.State != SessionLost {
		return ClaimOutcome{AlreadyOwned, s}
	}
	if exists && s.Name != "" && c.Name != "" && s.Name != c.Name {
		return ClaimOutcome{NameDiffers, s}
	}
	if other, taken := m.holder(c.Key.Actor, c.Name); taken && other.Key != c.Key {
		return ClaimOutcome{NameTaken, other}
	}
	if !exists && !c.Key.IsPlan() {
		places := 0
		var oldest Session
		for _, other := range m.sessions {
			if other.Key.Actor != c.Key.Actor || other.Key.IsPlan() {
				continue
			}
			places++
			if oldest.Epoch == 0 || other.LastUsedAt < oldest.LastUsedAt ||
				other.LastUsedAt == oldest.LastUsedAt && other.Key.ID < oldest.Key.ID {
				oldest = other
			}
		}
		if places >= 20 {
			return ClaimOutcome{LimitReached, oldest}
		}
	}
	if !exists {
		s = Session{Key: c.Key, CreatedAt: at}
	}
	if c.Name != "" {
		s.Name = c.Name
	}
	return ClaimOutcome{Claimed, m.grant(s, c.Owner, c.Incarnation, index, at)}
}

func (m *model) grant(s Session, owner NodeID, life Incarnation, index uint64, at Timestamp) Session {
	s.Owner, s.Incarnation, s.Epoch, s.State = owner, life, Epoch(index), SessionLive
	if at > s.LastUsedAt {
		s.LastUsedAt = at
	}
	m.sessions[s.Key] = s
	return s
}

func (m *model) rebuild(c RebuildSession, index uint64, at Timestamp) any {
	if !m.up(c.Owner, c.Incarnation) {
		return RebuildOutcome{Result: RebuildNotCurrent}
	}
	s, ok := m.sessions[c.Key]
	if !ok {
		return RebuildOutcome{Result: RebuildNotFound}
	}
	if s.Epoch != c.Expected {
		return RebuildOutcome{RebuildStale, s}
	}
	if m.nodes[c.Owner].Draining && s.Owner != c.Owner {
		return RebuildOutcome{RebuildDraining, s}
	}
	if s.State != SessionLost {
		if s.State != SessionLive || s.Owner != c.Owner || s.Incarnation != c.Incarnation || c.Reason == "" {
			return RebuildOutcome{StillOwned, s}
		}
		s = m.lose(s, c.Reason, at)
	}
	return RebuildOutcome{Rebuilt, m.grant(s, c.Owner, c.Incarnation, index, at)}
}

func (m *model) doActor(c command, at Timestamp) any {
	switch c := c.(type) {
	case CreateActor:
		if a, ok := m.actors[c.Name]; ok && a.EndedAt == 0 {
			return CreateActorOutcome{ActorExists, a}
		}
		a := Actor{Name: c.Name, ID: c.ID, Operator: c.Operator, Labels: c.Labels, CreatedAt: at}
		m.actors[c.Name] = a
		for id, token := range m.rest.tokens {
			if token.Owner == c.Name {
				m.doTrust(RevokeToken{ID: id}, at)
			}
		}
		return CreateActorOutcome{ActorCreated, a}
	case EndActor:
		a, ok := m.actors[c.Name]
		if !ok {
			return EndActorOutcome{Result: ActorNotFound}
		}
		if a.EndedAt != 0 {
			return EndActorOutcome{Result: ActorAlreadyEnded}
		}
		a.EndedAt = at
		m.actors[c.Name] = a
		out := EndActorOutcome{Result: ActorEnded}
		for id := 0; id <= lastID; id++ { // in key order
			if s, ok := m.sessions[key(c.Name, id)]; ok {
				delete(m.sessions, s.Key)
				s.State = SessionClosed
				out.Closed = append(out.Closed, s)
			}
		}
		for k := range m.rest.keys {
			if k[0] == c.Name {
				delete(m.rest.keys, k)
			}
		}
		for k := range m.rest.shelf.servers {
			if k[0] == c.Name {
				delete(m.rest.shelf.servers, k)
			}
		}
		maps.DeleteFunc(m.rest.machines, func(_ string, have Machine) bool { return have.Actor == c.Name })
		return out
	}
	return m.doTend(c, at)
}
