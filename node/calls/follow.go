package calls

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// Told is one thing that a follower is told: a name and a JSON object as they
// stand on the wire, and the output byte after which it stands.
type Told struct {
	Name   string
	Data   json.RawMessage
	Offset int64
}

// Follow tells the call's events and its output from a byte on (both streams
// counted together, in the order in which they came), goes on with what comes,
// and tells the result last. It returns when that was told, with tell's first
// error, or when ctx ends.
func (r *Record) Follow(ctx context.Context, from int64, tell func(Told) error) error {
	c := cursor{at: max(from, 0)}
	err := r.read(ctx, &c, 0, func(pieces []piece, _ bool) error {
		for _, p := range pieces {
			if err := c.tell(p, tell); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.end(r, tell)
}

// batchBytes is about how much is read at a time.
const batchBytes = 256 << 10

// read gives what the call said and says, from the cursor on, as much at a time as
// there is, until the call has ended and all of it was given, give fails, or ctx
// ends. last says that there is no more. That a call has its place and has started
// is held back for the time of linger, for more to come along.
func (r *Record) read(ctx context.Context, c *cursor, linger time.Duration, give func(pieces []piece, last bool) error) error {
	news := make(chan struct{}, 1)
	r.mu.Lock()
	if r.followers == nil {
		r.followers = make(map[chan struct{}]struct{})
	}
	r.followers[news] = struct{}{}
	if r.leaving != nil {
		r.leaving.Stop()
		r.leaving = nil
	}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.followers, news)
		r.mu.Unlock()
	}()
	for {
		pieces, last := r.batch(c)
		if linger > 0 && !last && onlyBegun(pieces) {
			r.linger(ctx, news, linger)
			var more []piece
			more, last = r.batch(c)
			pieces = append(pieces, more...)
		}
		linger = 0
		if len(pieces) > 0 || last {
			if err := give(pieces, last); err != nil || last {
				return err
			}
			continue
		}
		select {
		case <-news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// linger waits for the call's end, for a short time. Meanwhile news is kept full: then
// wake passes this reader by, and output does not wake it for each piece.
func (r *Record) linger(ctx context.Context, news chan struct{}, most time.Duration) {
	select {
	case news <- struct{}{}:
	default:
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-r.done:
	case <-timer.C:
	case <-ctx.Done():
	}
	<-news
}

// onlyBegun reports whether pieces say no more than that the call has begun.
func onlyBegun(pieces []piece) bool {
	for _, p := range pieces {
		if p.event == nil || p.event.Kind != surfaces.EventPlaced && p.event.Kind != surfaces.EventStarted {
			return false
		}
	}
	return true
}

// batch gives the next pieces, and whether they are the last ones.
func (r *Record) batch(c *cursor) (pieces []piece, last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for bytes := 0; bytes < batchBytes; {
		p, ok := r.journal.read(c)
		if !ok {
			return pieces, r.ended
		}
		p.next = Mark{Span: c.span, At: c.at}
		pieces = append(pieces, p)
		bytes += len(p.text)
	}
	return pieces, false
}

func (c *cursor) tell(p piece, tell func(Told) error) error {
	switch {
	case p.event != nil && p.event.Kind == surfaces.EventPlaced:
		return nil
	case p.event != nil:
		name, data := wire(p.event)
		return send(tell, name, data, p.offset)
	case p.gap > 0:
		return send(tell, surfaces.EventNotice, noticeData{
			Kind: "output_gap", Text: fmt.Sprintf("%d bytes of output are no longer held and were skipped", p.gap),
		}, p.offset)
	}
	if text := c.whole(p.stream, p.text); text != "" {
		return send(tell, p.stream, textData{text}, p.offset)
	}
	return nil
}

// end tells what was held back of a character that was never completed, and the
// result.
func (c *cursor) end(r *Record, tell func(Told) error) error {
	for _, stream := range []string{surfaces.StreamStdout, surfaces.StreamStderr} {
		if text := c.rest(stream); text != "" {
			if err := send(tell, stream, textData{text}, c.at); err != nil {
				return err
			}
		}
	}
	return send(tell, "result", r.Result(), c.at)
}

func send(tell func(Told) error, name string, data any, offset int64) error {
	b, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("encode the event %s: %w", name, err)
	}
	return tell(Told{Name: name, Data: b, Offset: offset})
}

// The objects of the events, by the contract's names.
type (
	textData struct {
		Text string `json:"text"`
	}
	startedData struct {
		CallID string `json:"call_id"`
		Node   string `json:"node"`
	}
	noticeData struct {
		Kind string `json:"kind"`
		Text string `json:"text"`
	}
	primitiveData struct {
		Seq  json.RawMessage `json:"seq"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	}
	clarificationData struct {
		ID       string `json:"id"`
		Question string `json:"question"`
	}
)

// wire gives an event's name and object.
func wire(e *surfaces.Event) (string, any) {
	switch e.Kind {
	case surfaces.EventStarted:
		return e.Kind, startedData{CallID: e.ID, Node: e.Name}
	case surfaces.EventDisplay:
		return e.Kind, e.Display
	case surfaces.EventNotice:
		return e.Kind, noticeData{Kind: e.Name, Text: e.Text}
	case surfaces.EventPrimitive:
		return e.Kind, primitiveData{Seq: json.RawMessage(e.ID), Name: e.Name, Args: e.Data}
	case surfaces.EventClarification:
		return e.Kind, clarificationData{ID: e.ID, Question: e.Text}
	}
	return e.Kind, textData{e.Text}
}
