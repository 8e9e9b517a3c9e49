package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/locusrun/locus/surfaces"
)

// line is where the calls of a session wait for their turn. Joining it and waiting
// in it are two steps, so that a call has its place before anybody hears of it.
// The zero value is a line in which nobody waits.
type line struct {
	mu      sync.Mutex
	taken   bool
	waiting []chan struct{} // first come, first served
}

// join takes a place and gives the channel that is closed when the turn has come.
// Whoever joins must await it.
func (l *line) join() (chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	turn := make(chan struct{})
	if !l.taken {
		l.taken = true
		close(turn)
		return turn, nil
	}
	if len(l.waiting) >= MaxQueue {
		return nil, &surfaces.Refusal{
			Code: surfaces.CodeNoCapacity, RetryAfterS: 1,
			Message:    fmt.Sprintf("%d calls are waiting for this session already", MaxQueue),
			Suggestion: "Wait for the calls that are running, or use another session.",
		}
	}
	l.waiting = append(l.waiting, turn)
	return turn, nil
}

// await waits for the turn. With an error the place is given up.
func (l *line) await(ctx context.Context, turn chan struct{}) error {
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
	l.mu.Lock()
	at := slices.Index(l.waiting, turn)
	if at >= 0 {
		l.waiting = slices.Delete(l.waiting, at, at+1)
	}
	l.mu.Unlock()
	if at < 0 {
		l.leave() // the turn came at the same moment
	}
	return context.Cause(ctx)
}

// leave gives the turn to the next.
func (l *line) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.taken = false
		return
	}
	close(l.waiting[0])
	l.waiting = slices.Delete(l.waiting, 0, 1)
}
