package gateway

import "sync/atomic"

// slots bounds how many requests run at the same time.
type slots chan struct{}

func newSlots(n int) slots { return make(slots, n) }

// take takes a place, and says no rather than to wait.
func (s slots) take() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s slots) free() { <-s }

// budget bounds the bytes that all bodies together may hold.
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
