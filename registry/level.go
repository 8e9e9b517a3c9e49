package registry

import (
	"errors"
	"fmt"
)

// The feature level keeps replicas of different releases equal. A command must have the same
// effect on every replica, so a command that an older release does not know must not be in
// the log while a node of that release follows it. The mesh's level is part of the
// replicated state: it is the lowest level that any node supports, and it never falls. A
// proposer writes only what the mesh's level allows, whatever its own release supports.

// level is the highest feature level that this release supports. Every change of a rule,
// bound, payload, outcome or kind needs a new level.
const level uint8 = 2

// levelBounded is the level from which on idempotency keys in force are never dropped, and
// actors are bounded.
const levelBounded uint8 = 2

// since is the level from which on a kind may be in the log.
func (k kind) since() uint8 { return 1 }

// ErrNewerLevel: the mesh is at a feature level that this release does not support, so this node
// cannot follow its log. The state was left unchanged; a newer release can continue from it.
var ErrNewerLevel = errors.New("registry: the mesh has left this release of locus behind")

// checkLevel returns ErrNewerLevel if a release that supports one level cannot follow a mesh.
func checkLevel(knows, mesh uint8) error {
	if mesh <= knows {
		return nil
	}
	return fmt.Errorf("%w: the mesh is at level %d, this is level %d", ErrNewerLevel, mesh, knows)
}

// meshLevel returns the feature level of the mesh, which is 1 before it has an identity.
func meshLevel(t tables) uint8 {
	if c := t.cluster(); c != nil {
		return c.Level
	}
	return 1
}

// raiseLevel raises the mesh to the level that all of its nodes support. A node that is gone
// for good holds it back until it is removed.
func (t tables) raiseLevel() {
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

// knows is the highest level that a node has said it supports.
func (n *Node) knows() uint8 { return max(n.Level, 1) }
