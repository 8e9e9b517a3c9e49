package gateway

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// fakeCall is one call. Its events are kept, so that any number may follow it
// from anywhere.
type fakeCall struct {
	id, actor, code string
	background      bool
	done            chan struct{}
	once            sync.Once

	mu        sync.Mutex
	result    surfaces.Result
	events    []StreamEvent
	changed   chan struct{} // closed and made anew by each event
	abandoned []time.Duration
	followers int
	steered   []string
	primitive []string
	broken    error // what Follow comes back with instead of the result
}

func (c *fakeCall) say(name, data string, offset int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, StreamEvent{Name: name, Data: json.RawMessage(data), Offset: offset})
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *fakeCall) finish() {
	r := c.Result()
	if r.Status == surfaces.StatusRunning {
		r.Status = surfaces.StatusDone
	}
	c.end(r)
}

func (c *fakeCall) end(r surfaces.Result) {
	c.once.Do(func() {
		c.mu.Lock()
		c.result = r
		c.mu.Unlock()
		close(c.done)
	})
}

func (c *fakeCall) ID() string            { return c.id }
func (c *fakeCall) Done() <-chan struct{} { return c.done }

func (c *fakeCall) Result() surfaces.Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.result
}

func (c *fakeCall) Follow(ctx context.Context, from int64, emit func(StreamEvent) error) error {
	c.mu.Lock()
	c.followers++
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.followers--
		c.mu.Unlock()
	}()
	for next := 0; ; {
		c.mu.Lock()
		events, changed, broken := c.events[next:], c.changed, c.broken
		c.mu.Unlock()
		for _, e := range events {
			if isOutput := e.Name == "stdout" || e.Name == "stderr"; isOutput && e.Offset <= from {
				continue
			}
			if err := emit(e); err != nil {
				return err
			}
		}
		next += len(events)
		if len(events) > 0 {
			continue
		}
		if broken != nil {
			return broken
		}
		select {
		case <-changed:
		case <-c.done:
			c.mu.Lock()
			more := len(c.events) > next
			c.mu.Unlock()
			if more {
				continue
			}
			data, err := json.Marshal(c.Result())
			if err != nil {
				return err
			}
			return emit(StreamEvent{Name: "result", Data: data, Offset: c.offset()})
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *fakeCall) offset() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.events) == 0 {
		return 0
	}
	return c.events[len(c.events)-1].Offset
}

func (c *fakeCall) Abandon(grace time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abandoned = append(c.abandoned, grace)
}

func (c *fakeCall) abandonments() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]time.Duration(nil), c.abandoned...)
}

func (c *fakeCall) following() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.followers
}

func (c *fakeCall) Steer(_ context.Context, action string, body []byte) (json.RawMessage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steered = append(c.steered, action+" "+string(body))
	if action == "answer" && len(body) == 0 {
		return nil, &surfaces.Refusal{Code: surfaces.CodeInvalidArgument, Message: "answer needs a text"}
	}
	return json.RawMessage(`{"ok": true}`), nil
}

func (c *fakeCall) Primitives(context.Context) ([]surfaces.UseRecord, error) {
	return []surfaces.UseRecord{{Seq: 1, Name: "fs.ls", Digest: "d", Outcome: surfaces.UseOK, MS: 1.5}}, nil
}

func (c *fakeCall) AnswerPrimitive(_ context.Context, seq string, body []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if seq != "1" {
		return &surfaces.Refusal{Code: surfaces.CodeInvalidArgument, Message: "nothing waits under that sequence"}
	}
	c.primitive = append(c.primitive, string(body))
	return nil
}
