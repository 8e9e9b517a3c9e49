package primitives

import "sync/atomic"

// Budget is how many uses may be performed, by the code of a call and of the calls
// that it makes. Its methods may be called at the same time.
type Budget struct {
	limit int64
	taken atomic.Int64
}

// NewBudget makes a budget of so many uses.
func NewBudget(limit int) *Budget { return &Budget{limit: int64(limit)} }

// take takes one use off the budget; false when nothing is left.
func (b *Budget) take() bool {
	if b.taken.Add(1) <= b.limit {
		return true
	}
	b.taken.Add(-1)
	return false
}
