package agentlink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/surfaces"
)

// land takes what a machine says of a call. A machine that comes again takes the place
// of what it left behind.
func (h *Hub) land(ctx context.Context, s *mesh.Stream, machine string, c claim) error {
	f := h.flight(c.CallID)
	if f == nil || f.machine.ID != machine {
		return errForgotten
	}
	f.claim.Do(func() { close(f.claimed) })
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(ctx, s.Cancel)()
	f.mu.Lock()
	if c.Need && f.missed() {
		f.mu.Unlock()
		return errForgotten
	}
	if f.current != nil {
		f.current(errReplaced)
	}
	f.current = end
	open := opened{Next: f.next}
	finished := f.result != nil
	if c.Need && !finished {
		open.Program = f.program()
	}
	f.mu.Unlock()
	if err := sendJSON(s, open); err != nil {
		return err
	}
	return f.serve(ctx, s, finished)
}

// serve hears what the machine says until the result is there, and tells it so.
func (f *flight) serve(ctx context.Context, s *mesh.Stream, finished bool) error {
	to := &speech{stream: s}
	if !finished {
		if err := f.hear(ctx, s, to); err != nil {
			return err
		}
	}
	// The machine closes when it has heard that. One that does not read is not waited for.
	late := time.AfterFunc(firstWithin, s.Cancel)
	defer late.Stop()
	if err := to.say(ctx, word{Done: true}); err != nil {
		return err
	}
	if _, err := receive(s, maxSmall); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// openUses is how many primitives of a call may wait for their answers.
const openUses = 1024

// hear takes items until the result is there. Meanwhile the machine is told to stop, if
// it is to, and what its program asks is answered.
func (f *flight) hear(ctx context.Context, s *mesh.Stream, to *speech) error {
	ctx, cancel := context.WithCancel(ctx)
	var telling sync.WaitGroup
	defer func() {
		cancel()
		late := time.AfterFunc(firstWithin, s.Cancel) // who does not read is not waited for
		defer late.Stop()
		telling.Wait()
	}()
	telling.Go(func() {
		select {
		case <-f.stopping:
			_ = to.say(ctx, word{Stop: true}) // a stream that broke is served anew, and told again
		case <-ctx.Done():
		}
	})
	var leave func()
	defer func() {
		if leave != nil {
			leave()
		}
	}()
	room := func() (err error) {
		if leave == nil {
			leave, err = f.hub.room(f.machine.ID)
		}
		return err
	}
	open := make(chan struct{}, openUses)
	for {
		it, err := receiveItem(s, room)
		if err != nil {
			return err
		}
		if it.kind != itemUse {
			if finished, err := f.take(it); finished || err != nil {
				return err
			}
			continue
		}
		select {
		case open <- struct{}{}:
		default:
			return fmt.Errorf("%w: too many primitives wait", mesh.ErrProtocol)
		}
		wait, err := f.asks(it)
		if err != nil {
			return err
		}
		telling.Go(func() {
			defer func() { <-open }()
			if a := wait(ctx); a != nil {
				_ = to.say(ctx, word{Answer: &answer{Use: it.number, Answer: a}}) // asked again on the next stream
			}
		})
	}
}

// receiveItem takes an item. Room is asked for before one is held that is large.
func receiveItem(s *mesh.Stream, room func() error) (item, error) {
	b, err := s.ReceiveLarge(maxMessage, maxSmall+headOfItem, room)
	if errors.Is(err, io.EOF) {
		return item{}, fmt.Errorf("%w: a call without an end", mesh.ErrProtocol)
	}
	if err != nil {
		return item{}, err
	}
	return decodeItem(b)
}

// speech is what a machine is told on a stream: one word at a time, each whole.
type speech struct {
	mu     sync.Mutex
	stream *mesh.Stream
}

// say says nothing any more once ctx has ended.
func (s *speech) say(ctx context.Context, w word) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	return sendJSON(s.stream, w)
}

// asks hands a use to the call's host. One that was asked before is known to it by its
// sequence.
func (f *flight) asks(it item) (func(context.Context) json.RawMessage, error) {
	var u use
	if err := json.Unmarshal(it.body, &u); err != nil {
		return nil, fmt.Errorf("%w: %w", mesh.ErrProtocol, err)
	}
	f.mu.Lock()
	f.next = max(f.next, it.number+1)
	gone := f.left || f.result != nil || f.attempt.Host == nil
	f.mu.Unlock()
	if gone {
		return func(context.Context) json.RawMessage { return hostGone }, nil
	}
	return f.attempt.Host.Ask(surfaces.Use{
		CallID: f.attempt.CallID, Actor: f.attempt.Actor, Attempt: f.attempt.Number, Seq: u.Seq, Name: u.Name, Data: u.Data,
		Left: max(f.attempt.Call.Timeout-time.Since(f.began), 0),
	}), nil
}

// hostGone is the answer where nobody performs primitives any more.
var hostGone = json.RawMessage(`{"error":{"type":"ended","message":"the call has ended"}}`)
