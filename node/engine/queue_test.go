package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

func TestQueueServesInOrderOfJoining(t *testing.T) {
	var l queue
	first, err := l.join()
	if err != nil || l.await(t.Context(), first) != nil {
		t.Fatal(err)
	}
	turns := make([]chan struct{}, 50)
	for i := range turns {
		if turns[i], err = l.join(); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	var order []int
	var all sync.WaitGroup
	for _, i := range rand.Perm(len(turns)) { // they wait in any order
		all.Go(func() {
			if err := l.await(t.Context(), turns[i]); err != nil {
				t.Error(err)
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			l.leave()
		})
	}
	l.leave()
	all.Wait()
	for i, got := range order {
		if got != i {
			t.Fatalf("served in the order %v", order)
		}
	}
}

// A call that leaves the queue, even when its turn comes, blocks no other, and two calls
// never have the turn at the same time.
func TestLeavingTheQueueDoesNotBlockOthers(t *testing.T) {
	var l queue
	var all sync.WaitGroup
	var mu sync.Mutex
	holders, served := 0, 0
	for i := range 200 {
		ctx, cancel := context.WithCancelCause(t.Context())
		turn, err := l.join()
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			if i%2 == 0 {
				cancel(errStopped)
			}
			defer cancel(nil)
			if err := l.await(ctx, turn); err != nil {
				if !errors.Is(err, errStopped) {
					t.Error(err)
				}
				return
			}
			mu.Lock()
			if holders++; holders != 1 {
				t.Errorf("%d have the turn", holders)
			}
			served++
			holders--
			mu.Unlock()
			l.leave()
		})
	}
	all.Wait()
	if served < 100 || l.taken || len(l.waiting) != 0 {
		t.Fatalf("%d served, taken %v, %d waiting", served, l.taken, len(l.waiting))
	}
}

func TestQueueIsBounded(t *testing.T) {
	var l queue
	for range MaxQueue + 1 {
		if _, err := l.join(); err != nil {
			t.Fatal(err)
		}
	}
	var refusal *surfaces.Refusal
	if _, err := l.join(); !errors.As(err, &refusal) || refusal.Code != surfaces.CodeNoCapacity {
		t.Fatalf("got %v", err)
	}
}
