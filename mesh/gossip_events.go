package mesh

import (
	"fmt"
	"time"

	"github.com/hashicorp/memberlist"
)

// memberlist calls these methods with its own lock held. They only update the table of
// members; they must not block or call memberlist.

type gossipDelegate Gossip

func (d *gossipDelegate) NodeMeta(int) []byte             { return d.meta.Load().append(nil) }
func (d *gossipDelegate) NotifyMsg([]byte)                {}
func (d *gossipDelegate) GetBroadcasts(_, _ int) [][]byte { return nil }
func (d *gossipDelegate) LocalState(bool) []byte          { return nil }
func (d *gossipDelegate) MergeRemoteState([]byte, bool)   {}

// gossipFilter refuses nodes of other clusters and those that Accept refuses. It is the
// only hook that memberlist calls on every way by which a node can become a member.
type gossipFilter Gossip

func (f *gossipFilter) NotifyAlive(node *memberlist.Node) error {
	member, meta, err := memberOf(node)
	if err != nil {
		return err
	}
	if meta.cluster != f.meta.Load().cluster {
		return fmt.Errorf("mesh: %s is of another cluster", node.Name)
	}
	if f.cfg.Accept != nil && member.ID != f.m.id.ID {
		return f.cfg.Accept(member)
	}
	return nil
}

type gossipEvents Gossip

func (e *gossipEvents) NotifyJoin(node *memberlist.Node)   { (*Gossip)(e).alive(node) }
func (e *gossipEvents) NotifyUpdate(node *memberlist.Node) { (*Gossip)(e).alive(node) }

func (g *Gossip) alive(node *memberlist.Node) {
	member, meta, err := memberOf(node)
	if err != nil {
		return // cannot happen: NotifyAlive has parsed the same metadata
	}
	g.mu.Lock()
	before, known := g.members[member.ID]
	if known && before.State == Alive {
		member.Since = before.Since
	}
	g.members[member.ID] = member
	if meta.leaving {
		g.leavers[member.ID] = true
	} else {
		delete(g.leavers, member.ID)
	}
	g.mu.Unlock()
	g.changed()
}

func (e *gossipEvents) NotifyLeave(node *memberlist.Node) {
	g := (*Gossip)(e)
	g.mu.Lock()
	member := g.members[node.Name]
	member.ID = node.Name
	member.State, member.Since = Dead, time.Now()
	// memberlist does not tell its users whether a member has left or died.
	if g.leavers[node.Name] {
		member.State = Left
	}
	delete(g.leavers, node.Name)
	g.members[node.Name] = member
	g.forgetOldest()
	g.mu.Unlock()
	g.changed()
}

// forgetOldest removes the oldest gone member if there are more than maxGone. Called with
// the lock held.
func (g *Gossip) forgetOldest() {
	gone, oldest := 0, Member{}
	for _, member := range g.members {
		if member.State == Alive {
			continue
		}
		gone++
		if oldest.ID == "" || member.Since.Before(oldest.Since) {
			oldest = member
		}
	}
	if gone > maxGone {
		delete(g.members, oldest.ID)
	}
}

func (g *Gossip) changed() {
	select {
	case g.changes <- struct{}{}:
	default:
	}
}

func memberOf(node *memberlist.Node) (Member, Meta, error) {
	meta, err := parseMeta(node.Meta)
	if err != nil {
		return Member{}, Meta{}, err
	}
	return Member{
		ID: node.Name, Addr: node.Address(), Incarnation: meta.Incarnation,
		State: Alive, Data: meta.Data, Since: time.Now(),
	}, meta, nil
}
