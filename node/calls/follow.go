package calls

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// Event is an event for a follower: its name and JSON object as they are sent, and the offset
// in the output after which it comes.
type Event struct {
	Name   string
	Data   json.RawMessage
	Offset int64
}

// Follow passes the call's events and output to tell, from an output offset on that counts
// both streams together in the order of arrival. It continues as more arrives, and passes the
// result last. It returns after the result, at the first error of tell, or when ctx ends.
func (r *Record) Follow(ctx context.Context, from int64, tell func(Event) error) error {
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

// batchBytes is about how much output a batch has.
const batchBytes = 256 << 10

// read passes output and events from the cursor on to give, in batches, until the call has
// ended and everything was passed on, give fails, or ctx ends. last is set for the last batch.
// If a first batch has nothing but the start of the call, it is held back for up to delay, to
// be sent together with what follows.
func (r *Record) read(ctx context.Context, c *cursor, delay time.Duration, give func(pieces []piece, last bool) error) error {
	news := make(chan struct{}, 1)
	r.mu.Lock()
	if r.followers == nil {
		r.followers = make(map[chan struct{}]struct{})
	}
	r.followers[news] = struct{}{}
	if r.abandonTimer != nil {
		r.abandonTimer.Stop()
		r.abandonTimer = nil
	}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.followers, news)
		r.mu.Unlock()
	}()
	for {
		pieces, last := r.batch(c)
		if delay > 0 && !last && onlyBegun(pieces) {
			r.waitForMore(ctx, news, delay)
			var more []piece
			more, last = r.batch(c)
			pieces = append(pieces, more...)
		}
		delay = 0
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

// waitForMore waits for the call's end, but not longer than most. Meanwhile news is kept
// full, so that wake does not wake this reader for each piece of output.
func (r *Record) waitForMore(ctx context.Context, news chan struct{}, most time.Duration) {
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

// onlyBegun reports whether pieces contain nothing but the start of the call.
func onlyBegun(pieces []piece) bool {
	for _, p := range pieces {
		if p.event == nil || p.event.Kind != surfaces.EventPlaced && p.event.Kind != surfaces.EventStarted {
			return false
		}
	}
	return true
}

// batch returns the next pieces, and whether they are the last ones.
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

func (c *cursor) tell(p piece, tell func(Event) error) error {
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
	if text := c.completeText(p.stream, p.text); text != "" {
		return send(tell, p.stream, textData{text}, p.offset)
	}
	return nil
}

// end passes on the bytes of incomplete characters that were held back, and the result.
func (c *cursor) end(r *Record, tell func(Event) error) error {
	for _, stream := range []string{surfaces.StreamStdout, surfaces.StreamStderr} {
		if text := c.remainder(stream); text != "" {
			if err := send(tell, stream, textData{text}, c.at); err != nil {
				return err
			}
		}
	}
	return send(tell, "result", r.Result(), c.at)
}

func send(tell func(Event) error, name string, data any, offset int64) error {
	b, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("encode the event %s: %w", name, err)
	}
	return tell(Event{Name: name, Data: b, Offset: offset})
}

// The JSON objects of the events.
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

// wire returns the name and JSON object of an event as sent to followers.
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
