package calls

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/locusrun/locus/surfaces"
)

// Bounds on the ended calls that are kept, whichever is reached first. The oldest are dropped
// first; running calls never are.
const (
	MaxEnded      = 2000
	MaxEndedBytes = 128 << 20
	EndedTTL      = 24 * time.Hour
	// Calls made by the code of other calls have bounds of their own, so that a program that
	// makes many does not evict the results of others.
	MaxEndedNested      = 1000
	MaxEndedNestedBytes = 32 << 20
)

// Table holds the calls of a node. It is safe for concurrent use.
type Table struct {
	mu      sync.Mutex
	records map[string]*Record // all calls, by id
	callers history            // ended calls that callers made
	inner   history            // ended calls that the code of other calls made
	total   int64              // calls begun since the node started
}

// history holds ended calls.
type history struct {
	ended              []endedCall // oldest first
	bytes              int         // the weight of all ended calls
	maxCalls, maxBytes int
}

type endedCall struct {
	record *Record
	weight int       // see Record.Size
	at     time.Time // when it ended
}

// NewTable makes an empty table.
func NewTable() *Table {
	return &Table{
		records: make(map[string]*Record),
		callers: history{maxCalls: MaxEnded, maxBytes: MaxEndedBytes}, inner: history{maxCalls: MaxEndedNested, maxBytes: MaxEndedNestedBytes},
	}
}

// NewID returns a unique call id.
func NewID() string { return "call_" + uuid.Must(uuid.NewV7()).String() }

// Begin adds a call that is about to run. stop stops it; it may be called more than once and
// from any goroutine.
func (t *Table) Begin(id string, call surfaces.Call, stop func(callID string)) *Record {
	r := NewRecord(id, call, func() { stop(id) })
	t.mu.Lock()
	defer t.mu.Unlock()
	t.records[r.ID] = r
	t.total++
	return r
}

// End ends a call with its result, keeps it for a while and drops older ones. A call may be
// given two results: a provisional one with unknown outcome, because its caller could not
// wait any longer, and the real one. The real one wins, whichever comes first. End does
// nothing and returns false for a call whose outcome is already known. note is called before
// any reader can see the result; amends says that it replaces a provisional one.
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

// keep adds an ended call to its history, and drops the oldest ones.
func (t *Table) keep(r *Record) {
	w := r.Size()
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.callers
	if r.Call.Parent != "" {
		s = &t.inner
	}
	for _, old := range s.put(endedCall{record: r, weight: w, at: time.Now()}) {
		delete(t.records, old.record.ID)
	}
}

// put adds a call and returns those that are dropped for it.
func (s *history) put(k endedCall) []endedCall {
	s.ended = append(s.ended, k)
	s.bytes += k.weight
	return s.drop(len(s.ended)-1, k.at)
}

// drop returns the oldest calls that are beyond the bounds, at most so many.
func (s *history) drop(most int, now time.Time) []endedCall {
	drop := 0
	for drop < most {
		oldest := s.ended[drop]
		if len(s.ended)-drop <= s.maxCalls && s.bytes <= s.maxBytes && now.Sub(oldest.at) < EndedTTL {
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

// Sweep drops the calls that ended EndedTTL ago, on a node where no others end.
func (t *Table) Sweep(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range []*history{&t.callers, &t.inner} {
		for _, old := range s.drop(len(s.ended), now) {
			delete(t.records, old.record.ID)
		}
	}
}

// Refused makes the record of a refused call. It has an id and a result, and is not kept.
func (t *Table) Refused(actor string, refusal *surfaces.Refusal, node string) *Record {
	id := NewID()
	r := NewRecord(id, surfaces.Call{Actor: actor}, func() {})
	r.Finish(refusal.Result(surfaces.Partial{CallID: id, Node: node}))
	return r
}

// Get finds a call of an actor; nil if there is none.
func (t *Table) Get(actor, id string) *Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.records[id]; r != nil && r.Actor == actor {
		return r
	}
	return nil
}

// Find finds a call of any actor; nil if there is none.
func (t *Table) Find(id string) *Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.records[id]
}

// Late adds output that arrived after the end of a call to its record, if it is still kept.
func (t *Table) Late(id string, p []byte) {
	if r := t.Find(id); r != nil {
		r.Late(p)
	}
}

// List returns the calls of an actor, newest first.
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

// Running returns the running calls of all actors.
func (t *Table) Running() []*Record {
	t.mu.Lock()
	list := slices.Collect(maps.Values(t.records))
	t.mu.Unlock()
	return slices.DeleteFunc(list, (*Record).Ended)
}

// Counts returns how many calls are running, and how many were begun since the node started.
func (t *Table) Counts() (running int, total int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.records) - len(t.callers.ended) - len(t.inner.ended), t.total
}
