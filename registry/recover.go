package registry

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/hashicorp/raft"
)

// Recover makes this node the only voter of its mesh, from the state on its disk. It is meant
// for the case that most voters are gone for good; whatever only they had committed is lost.
// The registry must be closed on this node, and every other old node must not start again
// before its registry's directory was removed: two old nodes could otherwise form a second
// mesh.
//
// Every entry in the local log counts as committed, even if no majority had it. When the
// directory is next opened, all earlier incarnations of nodes have expired and all sessions
// are lost, and new epochs and incarnations are greater than any that were issued. Wait for
// one lease TTL before: an old node that still runs may serve that long.
//
// Errors are ErrLocked, ErrDamaged, ErrWrongNode, and those of the file system. It is safe to
// run again after an interruption.
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

// recover writes a snapshot of the whole state with this node as the only voter. The mark
// that the recovery must be announced is written first: if only the snapshot were written
// before a crash, old epochs would stay valid.
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
