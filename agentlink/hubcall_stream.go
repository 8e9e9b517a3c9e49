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

// serveCall serves a machine's stream of a call. It replaces an earlier stream of the same
// call.
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

// serve receives items until there is a result, and then acknowledges it.
func (f *hubCall) serve(ctx context.Context, s *mesh.Stream, finished bool) error {
	to := &controlWriter{stream: s}
	if !finished {
		if err := f.receiveItems(ctx, s, to); err != nil {
			return err
		}
	}
	// The machine closes the stream after the acknowledgement. A machine that does not read
	// is not waited for.
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

// openUses bounds the primitives of a call that wait for answers.
const openUses = 1024

// receiveItems receives items until there is a result. Meanwhile it sends a stop, if the
// call is to stop, and the answers to primitives.
func (f *hubCall) receiveItems(ctx context.Context, s *mesh.Stream, to *controlWriter) error {
	ctx, cancel := context.WithCancel(ctx)
	var telling sync.WaitGroup
	defer func() {
		cancel()
		late := time.AfterFunc(firstWithin, s.Cancel) // a machine that does not read is not waited for
		defer late.Stop()
		telling.Wait()
	}()
	telling.Go(func() {
		select {
		case <-f.stopping:
			_ = to.send(ctx, control{Stop: true}) // if it fails, the next stream sends it again
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
				_ = to.send(ctx, control{Answer: &answer{Use: it.number, Answer: a}}) // if it fails, the machine asks again on the next stream
			}
		})
	}
}

// receiveItem receives one item. It calls room before it buffers a large one.
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

// controlWriter sends control messages on a stream, one at a time.
type controlWriter struct {
	mu     sync.Mutex
	stream *mesh.Stream
}

// send does nothing once ctx has ended.
func (s *controlWriter) send(ctx context.Context, c control) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	return sendJSON(s.stream, c)
}

// ask passes a use of a primitive to the call's host, which recognises a repeated one by
// its sequence number.
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
		Remaining: max(f.attempt.Limit()-time.Since(f.began), 0),
	}), nil
}

// hostGone is the answer when no host serves primitives any more.
var hostGone = json.RawMessage(`{"error":{"type":"ended","message":"the call has ended"}}`)
