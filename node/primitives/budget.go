package primitives

import "sync/atomic"

// Budget bounds the number of uses performed by the code of a call and of the calls that it
// makes. Its methods are safe for concurrent use.
type Budget struct {
	limit int64
	taken atomic.Int64
}

// NewBudget makes a budget of limit uses.
func NewBudget(limit int) *Budget { return &Budget{limit: int64(limit)} }

// take spends one use; false when nothing is left.
func (b *Budget) take() bool {
	if b.taken.Add(1) <= b.limit {
		return true
	}
	b.taken.Add(-1)
	return false
}
