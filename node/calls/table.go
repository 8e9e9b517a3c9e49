package calls

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/locusrun/locus/surfaces"
)

// Bounds on the ended calls that are remembered, whichever is reached first. The
// oldest are forgotten first; running calls never are.
const (
	KeepCalls = 2000
	KeepBytes = 128 << 20
	KeepFor   = 24 * time.Hour
	// Those that the code of other calls has made are bounded by themselves, so that
	// a program which makes many drives out nobody's results.
	KeepInner      = 1000
	KeepInnerBytes = 32 << 20
)

// Table holds the calls of a node. Its methods may be called at the same time.
type Table struct {
	mu      sync.Mutex
	records map[string]*Record
	callers shelf
	inner   shelf
	total   int64
}

// shelf holds ended calls.
type shelf struct {
	ended []kept // oldest first
	bytes int
	// most and mostBytes bound it.
	most, mostBytes int
}

type kept struct {
	record *Record
	weight int
	at     time.Time
}

// NewTable makes a table.
func NewTable() *Table {
	return &Table{
		records: make(map[string]*Record),
		callers: shelf{most: KeepCalls, mostBytes: KeepBytes}, inner: shelf{most: KeepInner, mostBytes: KeepInnerBytes},
	}
}

// NewID gives a call id that no other call has.
func NewID() string { return "call_" + uuid.Must(uuid.NewV7()).String() }

// Begin notes a call that is about to run. stop stops it; it may be called more
// than once and from any goroutine.
func (t *Table) Begin(id string, call surfaces.Call, stop func(callID string)) *Record {
	r := NewRecord(id, call, func() { stop(id) })
	t.mu.Lock()
	defer t.mu.Unlock()
	t.records[r.ID] = r
	t.total++
	return r
}

// End ends a call with its result, remembers it for a while and forgets older ones. A
// call may be given two results: one because its caller could wait no longer, whose
// outcome is unknown, and the true one. Whichever comes first, the true one stands. End
// does nothing and gives false for a call whose outcome is known already. note is called
// before anybody can have the result, and told whether it takes the place of another.
func (t *Table) End(r *Record, res surfaces.Result, note func(amends bool)) bool {
	r.ending.Lock()
	defer r.ending.Unlock()
	if r.amend(res, func() { note(true) }) {
		return true
	}
	if r.Ended() {
		return false
	}
	note(false)
	r.Finish(res)
	t.keep(r)
	return true
}

// keep remembers a call that has ended, and forgets the oldest ones for it.
func (t *Table) keep(r *Record) {
	w := r.Weight()
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.callers
	if r.Call.Parent != "" {
		s = &t.inner
	}
	for _, old := range s.put(kept{record: r, weight: w, at: time.Now()}) {
		delete(t.records, old.record.ID)
	}
}

// put adds a call and gives those that are forgotten for it.
func (s *shelf) put(k kept) []kept {
	s.ended = append(s.ended, k)
	s.bytes += k.weight
	drop := 0
	for drop < len(s.ended)-1 {
		oldest := s.ended[drop]
		if len(s.ended)-drop <= s.most && s.bytes <= s.mostBytes && time.Since(oldest.at) < KeepFor {
			break
		}
		s.bytes -= oldest.weight
		drop++
	}
	gone := slices.Clone(s.ended[:drop])
	clear(s.ended[:drop])
	s.ended = s.ended[drop:]
	return gone
}

// Refused gives a call that was refused: it has an id and a result, and is not
// remembered.
func (t *Table) Refused(actor string, refusal *surfaces.Refusal, node string) *Record {
	id := NewID()
	r := NewRecord(id, surfaces.Call{Actor: actor}, func() {})
	r.Finish(refusal.Result(surfaces.Partial{CallID: id, Node: node}))
	return r
}

// Get finds a call of an actor; nil when there is none.
func (t *Table) Get(actor, id string) *Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.records[id]; r != nil && r.Actor == actor {
		return r
	}
	return nil
}

// Find finds a call, whosever it is; nil when there is none.
func (t *Table) Find(id string) *Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.records[id]
}

// Late hands on output that came after a call's end.
func (t *Table) Late(id string, p []byte) {
	if r := t.Find(id); r != nil {
		r.Late(p)
	}
}

// List gives an actor's calls, newest first.
func (t *Table) List(actor string) []*Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []*Record
	for _, r := range t.records {
		if r.Actor == actor {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b *Record) int { return b.Started.Compare(a.Started) })
	return list
}

// Running gives the calls that have not ended, whosever they are.
func (t *Table) Running() []*Record {
	t.mu.Lock()
	list := slices.Collect(maps.Values(t.records))
	t.mu.Unlock()
	return slices.DeleteFunc(list, (*Record).Ended)
}

// Counts gives how many calls are running, and how many there ever were since the
// node started.
func (t *Table) Counts() (running int, total int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.records) - len(t.callers.ended) - len(t.inner.ended), t.total
}
