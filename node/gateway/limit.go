package gateway

import "sync/atomic"

// slots bounds concurrent requests.
type slots chan struct{}

func newSlots(n int) slots { return make(slots, n) }

// take takes a slot; false if none is free. It does not block.
func (s slots) take() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s slots) free() { <-s }

// budget bounds the memory of all bodies together, in bytes.
type budget struct {
	limit int64
	used  atomic.Int64
}

func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.limit {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) free(n int64) { b.used.Add(-n) }
