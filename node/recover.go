package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/locusrun/locus/registry"
)

// ErrNoMember: the data directory has never belonged to a member of a mesh.
var ErrNoMember = errors.New("node: this data directory belongs to no node of a mesh")

// Recover makes the node of the data directory the only voter of its mesh, for when a
// majority of the voters is lost for good. The node must be down, and the other old nodes
// must stay down until their data directories are emptied. Recover is idempotent.
func (c Config) Recover() error {
	c, err := c.withDefaults()
	if err != nil {
		return err
	}
	id, err := os.ReadFile(c.path(idFile))
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNoMember
	}
	if err != nil {
		return fmt.Errorf("node: %w", err)
	}
	if joined, err := c.Joined(); err != nil || !joined {
		return errors.Join(ErrNoMember, err)
	}
	return registry.Recover(c.path("registry"), registry.NodeID(strings.TrimSpace(string(id))))
}
