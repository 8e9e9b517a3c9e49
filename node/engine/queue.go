package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/locusrun/locus/surfaces"
)

// queue orders the calls of a session. Joining the queue and waiting in it are two steps,
// so that a call can be announced once it has its place. The zero value is an empty queue.
type queue struct {
	mu      sync.Mutex
	taken   bool            // a call has the turn
	waiting []chan struct{} // first come, first served
}

// join takes a place in the queue and returns the channel that is closed when the turn has
// come. The caller must call await afterwards.
func (q *queue) join() (chan struct{}, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	turn := make(chan struct{})
	if !q.taken {
		q.taken = true
		close(turn)
		return turn, nil
	}
	if len(q.waiting) >= MaxQueue {
		return nil, &surfaces.Refusal{
			Code: surfaces.CodeNoCapacity, RetryAfterS: 1,
			Message:    fmt.Sprintf("%d calls are waiting for this session already", MaxQueue),
			Suggestion: "Wait for the calls that are running, or use another session.",
		}
	}
	q.waiting = append(q.waiting, turn)
	return turn, nil
}

// await waits for the turn. If it fails, the place is given up.
func (q *queue) await(ctx context.Context, turn chan struct{}) error {
	select {
	case <-turn:
		return nil
	default:
	}
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	at := slices.Index(q.waiting, turn)
	if at >= 0 {
		q.waiting = slices.Delete(q.waiting, at, at+1)
	}
	q.mu.Unlock()
	if at < 0 {
		q.leave() // the turn has come at the same moment
	}
	return context.Cause(ctx)
}

// leave passes the turn to the next call.
func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.taken = false
		return
	}
	close(q.waiting[0])
	q.waiting = slices.Delete(q.waiting, 0, 1)
}
