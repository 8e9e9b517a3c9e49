package registry

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"

	"github.com/hashicorp/go-memdb"
	"github.com/hashicorp/raft"
)

// verdict says whether the state machine accepted a command at all. If it did, the outcome
// says what the command came to.
type verdict uint8

const (
	// accepted: the command was applied; see its outcome.
	accepted verdict = iota + 1
	// unsupported: the level or the kind is beyond the mesh's feature level.
	unsupported
	// malformed: the bytes are no command, or a field is out of bounds.
	malformed
	// reused: the request id belongs to another command.
	reused
	// faulted: a bug in this package stopped the command; the state is unchanged.
	faulted
)

// reply is the answer to one log entry, the same on every replica.
type reply struct {
	verdict verdict
	outcome any
	// repeated says that the outcome was recorded earlier.
	repeated bool
}

// machine is the replicated state machine. One goroutine calls Apply, Snapshot and Restore;
// snapshots are written out concurrently with later Apply calls. Readers use the published
// generation and never wait.
//
// Apply is a pure function of the state and the entry: it reads no clock, uses no randomness,
// and iterates over tables in key order only.
type machine struct {
	log    *slog.Logger
	db     *memdb.MemDB               // changed by Apply and Restore only; readers use now
	window *window                    // outcomes of recent commands, for those that are sent again
	now    atomic.Pointer[generation] // what readers see
	knows  uint8                      // the highest feature level that this release supports
	newer  atomic.Pointer[error]      // why this release can no longer follow the mesh
}

// generation is one immutable state of the registry.
type generation struct {
	db *memdb.MemDB
	// index is that of the latest command, applied that of the latest log entry of any
	// kind that the state machine has seen.
	index   uint64
	applied uint64
	// changed is closed when a later generation is published.
	changed chan struct{}
}

var (
	_ raft.FSM                = (*machine)(nil)
	_ raft.ConfigurationStore = (*restoreWatch)(nil)
)

func newMachine(log *slog.Logger, knows uint8) *machine {
	m := &machine{log: log, knows: knows}
	m.reset(newState(), newWindow(), 0)
	return m
}

func newState() *memdb.MemDB {
	db, err := memdb.NewMemDB(schema)
	if err != nil {
		panic(fmt.Errorf("registry: the schema is wrong: %w", err))
	}
	return db
}

// reset replaces the whole state.
func (m *machine) reset(db *memdb.MemDB, w *window, index uint64) {
	m.db, m.window = db, w
	m.publish(index)
}

// publish makes the current state visible to readers and wakes those that wait for a change.
func (m *machine) publish(index uint64) {
	m.swap(&generation{db: m.db.Snapshot(), index: index, applied: index})
}

func (m *machine) swap(next *generation) {
	next.changed = make(chan struct{})
	if before := m.now.Swap(next); before != nil {
		close(before.changed)
	}
}

// StoreConfiguration is called by raft for a change of membership. It changes nothing in the
// state, but readers wake and see that the state is that recent.
func (m *machine) StoreConfiguration(index uint64, _ raft.Configuration) {
	now := m.now.Load()
	m.swap(&generation{db: now.db, index: now.index, applied: index})
}

// Apply applies one committed entry and returns a reply. It never panics: a bug leaves the
// state unchanged on every replica, instead of crashing all of them at the same entry again
// and again.
//
// An entry that raises the mesh to a level that this release does not support is not
// applied, and neither is any after it, so that a newer release can continue from the state.
func (m *machine) Apply(entry *raft.Log) any {
	if m.behind() != nil {
		return reply{verdict: unsupported}
	}
	txn := m.db.Txn(true)
	answer := m.attempt(tables{txn}, entry)
	txn.Commit() // does nothing after an Abort
	if m.behind() == nil {
		m.publish(entry.Index)
	}
	return answer
}

// behind returns why this release can no longer follow the mesh, or nil.
func (m *machine) behind() error {
	if why := m.newer.Load(); why != nil {
		return *why
	}
	return nil
}

func (m *machine) attempt(t tables, entry *raft.Log) (answer reply) {
	defer func() {
		if fault := recover(); fault != nil {
			t.txn.Abort()
			m.log.Error("a command failed because of a bug in the state machine",
				"index", entry.Index, "fault", fault, "stack", string(debug.Stack()))
			answer = reply{verdict: faulted}
		}
	}()
	e, err := decodeEnvelope(entry.Data)
	if err != nil {
		return reply{verdict: malformed}
	}
	return m.applyCommand(t, e, entry.Index)
}

// applyCommand applies a decoded command, or repeats its outcome if it was sent before.
func (m *machine) applyCommand(t tables, e envelope, index uint64) reply {
	m.window.forget(index)
	known, ok := specs[e.kind]
	if at := meshLevel(t); !ok || e.level > at || e.kind.since() > at {
		return reply{verdict: unsupported}
	}
	digest := payloadDigest(e.payload)
	if before := m.window.find(e.request); before != nil {
		return repeat(before, e.kind, digest)
	}
	c, err := known.command(e.payload)
	if err != nil || c.bounds() != nil {
		return reply{verdict: malformed}
	}
	outcome := c.apply(t, moment{index: index, at: e.at})
	if err := checkLevel(m.knows, meshLevel(t)); err != nil {
		t.txn.Abort()
		m.newer.Store(&err)
		return reply{verdict: unsupported}
	}
	if e.kind == kindTouchSessions { // need not be remembered: it is idempotent, frequent and long
		return reply{verdict: accepted, outcome: outcome}
	}
	encoded, err := json.Marshal(outcome)
	if err != nil {
		panic(fmt.Errorf("registry: encode an outcome of kind %d: %w", e.kind, err))
	}
	m.window.add(&request{ID: e.request, Index: index, Kind: e.kind, Digest: digest, Outcome: encoded})
	return reply{verdict: accepted, outcome: outcome}
}

// repeat answers a resent command with its recorded outcome.
func repeat(before *request, k kind, digest uint64) reply {
	if before.Kind != k || before.Digest != digest {
		return reply{verdict: reused}
	}
	outcome, err := specs[k].outcome(before.Outcome)
	if err != nil {
		panic(fmt.Errorf("registry: decode a recorded outcome of kind %d: %w", k, err))
	}
	return reply{verdict: accepted, outcome: outcome, repeated: true}
}

func payloadDigest(payload []byte) uint64 {
	sum := sha256.Sum256(payload)
	return binary.BigEndian.Uint64(sum[:])
}
