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

// verdict says whether the state machine took a command at all. It comes before
// the outcome, which is the command's own.
type verdict uint8

const (
	// accepted: the command was judged; its outcome says how.
	accepted verdict = iota + 1
	// unsupported: the level or the kind is beyond the mesh's feature level.
	unsupported
	// malformed: the bytes are no command, or a field is out of bounds.
	malformed
	// reused: the request id belongs to another command.
	reused
	// faulted: a bug of ours stopped the command; the state is as it was before.
	faulted
)

// reply is what applying one log entry answers, on every replica alike.
type reply struct {
	verdict verdict
	outcome any
	// repeated says that the outcome was recorded earlier.
	repeated bool
}

// machine is the replicated state machine. Apply, Snapshot and Restore are
// called by one goroutine, except that snapshots are written out beside later
// Apply calls. Reads go to the published generation and never wait.
//
// Apply is a pure function of the state and the entry: it reads no clock, draws
// nothing at random, and walks tables in key order only.
type machine struct {
	log    *slog.Logger
	db     *memdb.MemDB
	window *window
	now    atomic.Pointer[generation]
	knows  uint8                 // the highest feature level
	newer  atomic.Pointer[error] // why this release cannot follow the mesh any more
}

// generation is one immutable state of the registry.
type generation struct {
	db *memdb.MemDB
	// index is of the latest command, applied of the latest entry that the state
	// machine was shown.
	index   uint64
	applied uint64
	// changed is closed when a later generation has been published.
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

// publish makes the committed state visible to readers and wakes those who wait.
func (m *machine) publish(index uint64) {
	m.swap(&generation{db: m.db.Snapshot(), index: index, applied: index})
}

func (m *machine) swap(next *generation) {
	next.changed = make(chan struct{})
	if before := m.now.Swap(next); before != nil {
		close(before.changed)
	}
}

// StoreConfiguration notes a change of membership, which is no part of the state:
// readers who wait for it wake, and the state is known to be that recent.
func (m *machine) StoreConfiguration(index uint64, _ raft.Configuration) {
	now := m.now.Load()
	m.swap(&generation{db: now.db, index: now.index, applied: index})
}

// Apply applies one committed entry and gives a reply. It never panics: a fault
// of ours leaves the state untouched, on every replica alike, instead of bringing
// all of them down again and again over the same entry.
//
// An entry that takes the mesh to a level that is not known here is not applied, nor
// is any after it: the state stays what a newer release can go on from.
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

// behind says why this release cannot follow the mesh any more; nil while it can.
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
			m.log.Error("a command failed on a fault of the state machine",
				"index", entry.Index, "fault", fault, "stack", string(debug.Stack()))
			answer = reply{verdict: faulted}
		}
	}()
	e, err := decodeEnvelope(entry.Data)
	if err != nil {
		return reply{verdict: malformed}
	}
	return m.judge(t, e, entry.Index)
}

func (m *machine) judge(t tables, e envelope, index uint64) reply {
	m.window.forget(index)
	known, ok := specs[e.kind]
	if at := feature(t); !ok || e.level > at || e.kind.since() > at {
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
	if err := follow(m.knows, feature(t)); err != nil {
		t.txn.Abort()
		m.newer.Store(&err)
		return reply{verdict: unsupported}
	}
	if e.kind == kindTouchSessions { // idempotent by itself, frequent, and long
		return reply{verdict: accepted, outcome: outcome}
	}
	encoded, err := json.Marshal(outcome)
	if err != nil {
		panic(fmt.Errorf("registry: encode an outcome of kind %d: %w", e.kind, err))
	}
	m.window.add(&request{ID: e.request, Index: index, Kind: e.kind, Digest: digest, Outcome: encoded})
	return reply{verdict: accepted, outcome: outcome}
}

// repeat answers a resent command with what was answered the first time.
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
