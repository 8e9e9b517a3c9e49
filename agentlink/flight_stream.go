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

// serveCall takes what a machine says of a call. A machine that comes again takes the place
// of what it left behind.
func (h *Hub) serveCall(ctx context.Context, s *mesh.Stream, machine string, c claim) error {
	f := h.find(c.CallID)
	if f == nil || f.machine.ID != machine {
		return errForgotten
	}
	f.claim.Do(func() { close(f.claimed) })
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(ctx, s.Cancel)()
	f.mu.Lock()
	if c.Need && f.tooLate() {
		f.mu.Unlock()
		return errForgotten
	}
	if f.endStream != nil {
		f.endStream(errReplaced)
	}
	f.endStream = end
	open := claimReply{Next: f.next}
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
func (f *hubCall) serve(ctx context.Context, s *mesh.Stream, finished bool) error {
	to := &controlWriter{stream: s}
	if !finished {
		if err := f.receiveItems(ctx, s, to); err != nil {
			return err
		}
	}
	// The machine closes when it has heard that. One that does not read is not waited for.
	late := time.AfterFunc(firstWithin, s.Cancel)
	defer late.Stop()
	if err := to.send(ctx, control{Done: true}); err != nil {
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
func (f *hubCall) receiveItems(ctx context.Context, s *mesh.Stream, to *controlWriter) error {
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
			_ = to.send(ctx, control{Stop: true}) // a stream that broke is served anew, and told again
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
			leave, err = f.hub.acquireLarge(f.machine.ID)
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
			if finished, err := f.accept(it); finished || err != nil {
				return err
			}
			continue
		}
		select {
		case open <- struct{}{}:
		default:
			return fmt.Errorf("%w: too many primitives wait", mesh.ErrProtocol)
		}
		wait, err := f.ask(it)
		if err != nil {
			return err
		}
		telling.Go(func() {
			defer func() { <-open }()
			if a := wait(ctx); a != nil {
				_ = to.send(ctx, control{Answer: &answer{Use: it.number, Answer: a}}) // asked again on the next stream
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
type controlWriter struct {
	mu     sync.Mutex
	stream *mesh.Stream
}

// say says nothing any more once ctx has ended.
func (s *controlWriter) send(ctx context.Context, c control) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	return sendJSON(s.stream, c)
}

// asks hands a use to the call's host. One that was asked before is known to it by its
// sequence.
func (f *hubCall) ask(it item) (func(context.Context) json.RawMessage, error) {
	var u use
	if err := json.Unmarshal(it.body, &u); err != nil {
		return nil, fmt.Errorf("%w: %w", mesh.ErrProtocol, err)
	}
	f.mu.Lock()
	f.next = max(f.next, it.number+1)
	gone := f.detached || f.result != nil || f.attempt.Host == nil
	f.mu.Unlock()
	if gone {
		return func(context.Context) json.RawMessage { return hostGone }, nil
	}
	return f.attempt.Host.Ask(surfaces.Use{
		CallID: f.attempt.CallID, Actor: f.attempt.Actor, Attempt: f.attempt.Number, Seq: u.Seq, Name: u.Name, Data: u.Data,
		Left: max(f.attempt.Limit()-time.Since(f.began), 0),
	}), nil
}

// hostGone is the answer where nobody performs primitives any more.
var hostGone = json.RawMessage(`{"error":{"type":"ended","message":"the call has ended"}}`)
