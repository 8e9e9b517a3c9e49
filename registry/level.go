package registry

import (
	"errors"
	"fmt"
)

// The feature level is what keeps replicas of two releases equal. Each command has
// the same effect on all of them or on none, so what an older release does not know
// must not stand on the log while one of its nodes follows it. The mesh's level is a
// fact of the state: it is the lowest that any of its nodes knows, and never falls. A
// proposer writes what that level allows, whatever it knows itself.

// level is the highest feature level that this release knows. A change of any rule,
// bound, payload, outcome or kind is a new level.
const level uint8 = 1

// since gives the lowest level of a mesh that has a kind on its log.
func (k kind) since() uint8 { return 1 }

// ErrNewer: the mesh acts by a feature level that this release does not know, so this
// node cannot follow it. No state was changed; a newer release goes on from it.
var ErrNewer = errors.New("registry: the mesh has left this release of locus behind")

// follow gives ErrNewer where a release that knows one level cannot follow a mesh.
func follow(knows, mesh uint8) error {
	if mesh <= knows {
		return nil
	}
	return fmt.Errorf("%w: the mesh is at level %d, this is level %d", ErrNewer, mesh, knows)
}

// feature gives the level that the mesh acts by. Before it has an identity only
// the first level exists.
func feature(t tables) uint8 {
	if c := t.cluster(); c != nil {
		return c.Level
	}
	return 1
}

// raise takes the mesh to the level that all of its nodes know by now. A node that
// is gone for good holds it back until it is removed.
func (t tables) raise() {
	now, nodes := t.cluster(), t.nodes()
	if now == nil || len(nodes) == 0 {
		return
	}
	common := nodes[0].knows()
	for _, n := range nodes[1:] {
		common = min(common, n.knows())
	}
	if common <= now.Level {
		return
	}
	next := *now
	next.Level = common
	t.put(tableCluster, &next)
}

// knows is the highest level that a node said it knows.
func (n *Node) knows() uint8 { return max(n.Level, 1) }
