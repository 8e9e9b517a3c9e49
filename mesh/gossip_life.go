package mesh

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Leave announces that this node leaves on purpose, waits until the announcement has
// spread, and closes. After an error perhaps no other node knows.
func (g *Gossip) Leave(ctx context.Context) error {
	meta := *g.meta.Load()
	meta.leaving = true
	return errors.Join(g.leave(ctx, meta), g.Close())
}

func (g *Gossip) leave(ctx context.Context, meta Meta) error {
	g.closing.Lock()
	defer g.closing.Unlock()
	if g.shutdown {
		return nil
	}
	left := func() time.Duration {
		if deadline, ok := ctx.Deadline(); ok {
			return max(time.Until(deadline), time.Millisecond)
		}
		return g.m.cfg.Handshake
	}
	g.setMeta(meta)
	if err := g.list.UpdateNode(left()); err != nil {
		return fmt.Errorf("mesh: gossip: leave: %w", err)
	}
	if err := g.list.Leave(left()); err != nil {
		return fmt.Errorf("mesh: gossip: leave: %w", err)
	}
	// The announcement was sent once. A few more rounds make up for lost packets.
	rounds := time.NewTimer(3 * g.cfg.Profile.Spread)
	defer rounds.Stop()
	select {
	case <-rounds.C:
	case <-ctx.Done():
	}
	return nil
}

// Close stops gossip without an announcement. Other nodes will consider this one dead.
func (g *Gossip) Close() error {
	g.cancel()
	g.closing.Lock()
	defer g.closing.Unlock()
	if g.shutdown {
		return nil
	}
	g.shutdown = true
	err := g.list.Shutdown()
	<-g.ended
	g.m.mu.Lock()
	if g.m.gossip == g {
		g.m.gossip = nil
	}
	g.m.mu.Unlock()
	return err
}

// rejoin periodically joins known nodes that are not members, until ctx ends.
func (g *Gossip) rejoin(ctx context.Context) {
	tick := time.NewTicker(g.cfg.Profile.Rejoin)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if absent := g.absent(g.cfg.Known()); len(absent) > 0 {
			if err := g.Join(absent); err != nil {
				g.m.log.Debug("known nodes cannot be joined", "err", err)
			}
		}
	}
}

// absent returns the known addresses that belong to no live member.
func (g *Gossip) absent(known []string) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(known), func(addr string) bool {
		for _, member := range g.members {
			if member.Addr == addr && member.State == Alive {
				return true
			}
		}
		return false
	})
}
