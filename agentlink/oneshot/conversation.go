package oneshot

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// Bounds on a program's unanswered primitives, and on the displays in its result.
const (
	maxDisplays     = 100
	maxDisplayBytes = 32 << 20
)

// conversation is the exchange of frames with Python about one program.
type conversation struct {
	attempt *attempt
	python  *interpreter
	ctx     context.Context // ends with the program
	cancel  context.CancelFunc
	tasks   sync.WaitGroup

	// Written only by receive, and read after it has returned.
	report     *pythonReport
	shown      []surfaces.Display
	shownBytes int // bytes of shown, which are bounded
	notices    []surfaces.Notice

	mu    sync.Mutex
	asked int // unanswered primitives
	bytes int // size of their data
}

func newConversation(a *attempt, p *interpreter) *conversation {
	ctx, cancel := context.WithCancel(context.Background())
	return &conversation{attempt: a, python: p, ctx: ctx, cancel: cancel}
}

// sendProgram gives the interpreter its program. If the interpreter has died, its exit
// status is the result.
func (c *conversation) sendProgram(stdin string) {
	run, err := json.Marshal(struct {
		Code  string `json:"code"`
		Stdin string `json:"stdin"`
	}{c.attempt.req.Code, stdin})
	if err == nil {
		err = c.python.feed()
	}
	if err == nil {
		err = c.python.say.send(frameRun, run)
	}
	if err != nil {
		c.attempt.runner.log.Debug("a program was not handed over", "call_id", c.attempt.req.CallID, "error", err)
	}
}

// receive processes the program's frames until the end of the pipe.
func (c *conversation) receive() {
	for {
		kind, body, err := c.python.hear.next()
		if err != nil {
			return // the end of the pipe, or the deadline
		}
		switch kind {
		case frameHello:
			c.python.ready = true
		case frameEvent:
			err = c.event(body)
		case frameRequest:
			err = c.request(body)
		case frameDone:
			err = c.done(body)
		}
		if err != nil {
			c.attempt.runner.log.Debug("a program's message was dropped", "call_id", c.attempt.req.CallID, "error", err)
		}
	}
}

func (c *conversation) event(body []byte) error {
	var e struct {
		Kind    string           `json:"kind"`
		Text    string           `json:"text"`
		Display surfaces.Display `json:"display"`
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return fmt.Errorf("read an event: %w", err)
	}
	switch e.Kind {
	case surfaces.EventNotify:
		c.tell(surfaces.Event{Kind: e.Kind, Text: e.Text})
	case surfaces.EventDisplay:
		c.show(e.Display)
		c.tell(surfaces.Event{Kind: e.Kind, Display: &e.Display})
	}
	return nil
}

func (c *conversation) tell(e surfaces.Event) {
	if c.attempt.sink != nil {
		c.attempt.sink.Event(e)
	}
}

// show adds a display to the result.
func (c *conversation) show(d surfaces.Display) {
	if len(c.shown) < maxDisplays && c.shownBytes+len(d.Data) <= maxDisplayBytes {
		c.shown, c.shownBytes = append(c.shown, d), c.shownBytes+len(d.Data)
		return
	}
	if c.shownBytes <= maxDisplayBytes {
		c.shownBytes = maxDisplayBytes + 1 // the notice is given once
		c.notices = append(c.notices, surfaces.Notice{
			Kind: "display_dropped",
			Text: fmt.Sprintf("more than %d displays or %d MiB of them: the rest is not in the result", maxDisplays, maxDisplayBytes>>20),
		})
	}
}

func (c *conversation) done(body []byte) error {
	var r pythonReport
	if err := json.Unmarshal(body, &r); err != nil {
		return fmt.Errorf("read a report: %w", err)
	}
	c.report = &r
	for _, n := range r.Notices {
		c.notices = append(c.notices, n)
		c.tell(surfaces.Event{Kind: surfaces.EventNotice, Name: n.Kind, Text: n.Text})
	}
	return nil
}

// request passes a primitive to the host, in the order in which the program asked, and
// delivers the answer when it comes.
func (c *conversation) request(body []byte) error {
	u, err := readUse(body)
	if err != nil {
		return err
	}
	c.mu.Lock()
	full := c.asked >= surfaces.MaxOpenUses || c.bytes+len(u.data) > surfaces.MaxOpenUsesBytes
	if !full {
		c.asked, c.bytes = c.asked+1, c.bytes+len(u.data)
	}
	c.mu.Unlock()
	a := c.attempt
	switch {
	case full:
		return c.answer(u, json.RawMessage(surfaces.AnswerTooMany))
	case a.host == nil || !a.req.Primitives:
		c.answered(u)
		return c.answer(u, json.RawMessage(surfaces.AnswerNoHost))
	}
	wait := a.host.Ask(surfaces.Use{
		CallID: a.req.CallID, Attempt: 1, Seq: u.id, Name: u.name, Data: u.data, Remaining: a.req.Timeout - time.Since(a.began),
	})
	c.tasks.Go(func() {
		answer := wait(c.ctx)
		c.answered(u)
		if answer == nil {
			return
		}
		if err := c.answer(u, answer); err != nil {
			a.runner.log.Debug("the answer to a primitive was not delivered", "call_id", a.req.CallID, "primitive", u.name, "error", err)
		}
	})
	return nil
}

func (c *conversation) answered(u use) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked, c.bytes = c.asked-1, c.bytes-len(u.data)
}

func (c *conversation) answer(u use, answer json.RawMessage) error {
	return c.python.say.send(frameAnswer, []byte{byte(len(u.id))}, []byte(u.id), answer)
}

// close abandons the unanswered primitives.
func (c *conversation) close() {
	c.cancel()
	_ = c.python.to.Close() // nobody reads from it any more
	c.tasks.Wait()
}
