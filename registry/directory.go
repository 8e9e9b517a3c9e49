package registry

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/locusrun/locus/certs"
)

// The layout of a registry's directory: the log in one file, and a subdirectory for the
// snapshots that raft manages.
const (
	logFile      = "raft.db"
	snapshotsDir = "snapshots"
	unfinished   = ".tmp"
	retained     = 2
)

// The keys under which raft stores its term and the term of its latest vote.
var (
	raftTerm     = []byte("CurrentTerm")
	raftVoteTerm = []byte("LastVoteTerm")
)

// directory is an open data directory that was checked to be complete.
type directory struct {
	owner     NodeID
	store     *store
	snapshots *raft.FileSnapshotStore
	// fresh says that it holds no state yet.
	fresh bool
}

// openDirectory opens or creates a registry's directory, and refuses one whose parts do not
// fit together. raft itself would skip an unreadable snapshot and continue without its state.
func openDirectory(path string, node NodeID, log raftLog) (*directory, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	s, err := openStore(filepath.Join(path, logFile))
	if err != nil {
		return nil, err
	}
	d, err := inspect(path, s, node, log)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return d, nil
}

func inspect(path string, s *store, node NodeID, log raftLog) (*directory, error) {
	if err := ownedBy(s, node, path); err != nil {
		return nil, err
	}
	if err := dropUnfinished(filepath.Join(path, snapshotsDir)); err != nil {
		return nil, err
	}
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(path, retained, log)
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	newest, err := newestSnapshot(filepath.Join(path, snapshotsDir), snapshots)
	if err != nil {
		return nil, err
	}
	d := &directory{owner: node, store: s, snapshots: snapshots}
	d.fresh, err = d.fits(newest)
	return d, err
}

// ownedBy binds a new directory to a node, and refuses that of another node. The snapshot
// directory is created only after the owner is on disk, so a directory that has the former
// without the latter has lost its log.
func ownedBy(s *store, node NodeID, path string) error {
	owner, err := s.node()
	switch {
	case err != nil:
		return fmt.Errorf("registry: %w", err)
	case owner == node:
		return nil
	case owner != "":
		return fmt.Errorf("%w: it is %s's, this is %s", ErrWrongNode, owner, node)
	}
	switch _, err := os.Stat(filepath.Join(path, snapshotsDir)); {
	case err == nil:
		return fmt.Errorf("%w: it was in use, but the log is gone", ErrDamaged)
	case !errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("registry: %w", err)
	}
	return errors.Join(s.setNode(node), certs.SyncDir(path), certs.SyncDir(filepath.Dir(path)))
}

// dropUnfinished removes snapshots whose writing was interrupted; they were never used.
func dropUnfinished(path string) error {
	left, err := filepath.Glob(filepath.Join(path, "*"+unfinished))
	if err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	for _, dir := range left {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("registry: %w", err)
		}
	}
	return nil
}

// newestSnapshot returns the index of the newest snapshot, 0 if there is none. A snapshot
// that cannot be read is ErrDamaged.
func newestSnapshot(path string, snapshots *raft.FileSnapshotStore) (uint64, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return 0, fmt.Errorf("registry: %w", err)
	}
	there := 0
	for _, e := range entries {
		if e.IsDir() && !strings.HasSuffix(e.Name(), unfinished) {
			there++
		}
	}
	readable, err := snapshots.List()
	if err != nil {
		return 0, fmt.Errorf("registry: %w", err)
	}
	// There may be more than retained, after a crash before the old ones were deleted.
	if len(readable) < min(there, retained) {
		return 0, fmt.Errorf("%w: only %d of %d snapshots have a readable header", ErrDamaged, len(readable), there)
	}
	if len(readable) == 0 {
		return 0, nil
	}
	_, body, err := snapshots.Open(readable[0].ID)
	if err != nil {
		return 0, fmt.Errorf("%w: snapshot %s: %w", ErrDamaged, readable[0].ID, err)
	}
	return readable[0].Index, body.Close()
}

// fits checks the log against the newest snapshot and reports whether there is
// no state at all.
func (d *directory) fits(snapshot uint64) (fresh bool, err error) {
	first, errFirst := d.store.FirstIndex()
	last, errLast := d.store.LastIndex()
	term, errTerm := d.store.GetUint64(raftTerm)
	began, errBegan := d.store.began()
	if err := errors.Join(errFirst, errLast, errTerm, errBegan); err != nil {
		return false, fmt.Errorf("registry: %w", err)
	}
	switch {
	case last == 0 && snapshot == 0 && began:
		return false, fmt.Errorf("%w: it was in use, but the log and the snapshots are gone", ErrDamaged)
	case last == 0 && snapshot == 0:
		return true, nil
	case term == 0:
		return false, fmt.Errorf("%w: there is state, but the term and the vote are gone", ErrDamaged)
	case last > 0 && first > snapshot+1:
		return false, fmt.Errorf("%w: the log begins at %d, the newest snapshot ends at %d", ErrDamaged, first, snapshot)
	case last > 0 && last < snapshot:
		// A crash came after a snapshot was received and before the log that it replaces
		// was removed. Remove it now, because the next entry would leave a gap.
		if err := d.store.DeleteRange(first, last); err != nil {
			return false, err
		}
	}
	if !began {
		return false, d.store.setBegan()
	}
	return false, nil
}

// bootstrap makes a fresh directory the only voter of a new cluster.
func (d *directory) bootstrap(conf *raft.Config, transport raft.Transport) error {
	vote, errVote := d.store.GetUint64(raftVoteTerm)
	term, errTerm := d.store.GetUint64(raftTerm)
	if err := errors.Join(errVote, errTerm); err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	if vote > 0 || term > 1 {
		return fmt.Errorf("%w: this node voted in term %d of another cluster", ErrDamaged, max(vote, term))
	}
	// An earlier bootstrap may have been interrupted after its first step, which sets the term.
	if term == 1 {
		if err := d.store.SetUint64(raftTerm, 0); err != nil {
			return err
		}
	}
	alone := raft.Configuration{Servers: []raft.Server{{ID: conf.LocalID, Address: transport.LocalAddr()}}}
	if err := raft.BootstrapCluster(conf, d.store, d.store, d.snapshots, transport, alone); err != nil {
		return fmt.Errorf("registry: bootstrap: %w", err)
	}
	return d.store.setBegan()
}
