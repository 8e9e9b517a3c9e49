package registry

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/hashicorp/raft"
)

// Recover makes a node the only voter of its mesh, from what it has on its disk.
// It is for when most voters are gone for good: what only they had agreed on is
// lost. The registry must be closed here, and every other old node must be kept
// from starting again until its registry's directory was removed; two of them
// would go on as the mesh that they remember.
//
// Everything in the log counts as agreed, even what no majority had. When the
// directory is opened next, all lives of nodes and all sessions of before are over,
// and epochs and lives are numbered above any that were given out. Wait for a lease
// to pass before: an old node that still runs may serve so long.
//
// Errors are ErrLocked, ErrDamaged, ErrWrongNode, and those of the file system.
// Running it again after it was cut off is safe.
func Recover(dir string, id NodeID) error {
	c, err := Config{Dir: dir, NodeID: id, Log: slog.New(slog.DiscardHandler)}.validate()
	if err != nil {
		return err
	}
	d, err := openDirectory(c.Dir, c.NodeID, raftLog{to: c.Log})
	if err != nil {
		return err
	}
	return errors.Join(d.recover(c), d.store.Close())
}

// recover writes a snapshot of everything, with this node as the only voter. The
// mark that the recovery is to be announced comes first: without it, a cut between
// the two would leave old epochs good.
func (d *directory) recover(c Config) error {
	if d.fresh {
		return fmt.Errorf("%w: there is no state to recover", ErrDamaged)
	}
	if err := d.store.setRecovered(true); err != nil {
		return err
	}
	transport := c.transport()
	alone := raft.Configuration{Servers: []raft.Server{{ID: raft.ServerID(c.NodeID), Address: transport.LocalAddr()}}}
	err := raft.RecoverCluster(c.raft(make(chan bool, 8)), newMachine(c.Log, c.level), d.store, d.store, d.snapshots, transport, alone)
	if err != nil {
		err = fmt.Errorf("registry: recover: %w", err)
	}
	return errors.Join(err, closeTransport(transport))
}
