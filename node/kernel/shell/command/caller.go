package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
)

// NameSize is the length of a caller's name.
const NameSize = 18

// Caller is one program, from before it runs until it has ended. It is safe for concurrent
// use.
type Caller struct {
	door *Door
	name string
	ctx  context.Context // ends with the program
	end  context.CancelFunc
	asks func(Question)

	// asking is held while a question is sent, so that questions are in the order of their
	// numbers and none is sent after End.
	asking              sync.Mutex
	calls, descriptions int

	mu      sync.Mutex
	waiting map[string]chan []byte
}

// Question is a request of a command to the host.
type Question struct {
	// Caller is the program that asks. Its Tell takes the answer, an object with either
	// "result" or "error".
	Caller *Caller
	// ID counts the calls of functions from 1. Requests for descriptions have a count of
	// their own, with a question mark in front.
	ID string
	// Name is NAMESPACE.FUNCTION, and Data the object of arguments.
	Name string
	Data json.RawMessage
}

// Name returns the secret that a command must present to act for the caller. It is valid
// only until the program has ended.
func (c *Caller) Name() string { return c.name }

// End ends the program's authority. Commands that wait for an answer are told that the
// call has ended, and no question is sent after End has returned.
func (c *Caller) End() {
	c.asking.Lock()
	defer c.asking.Unlock()
	c.end()
	c.door.forget(c)
}

// Tell delivers the answer to a question. It drops an answer that no command waits for.
func (c *Caller) Tell(id string, data json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if waits, ok := c.waiting[id]; ok {
		delete(c.waiting, id)
		waits <- data
	}
}

var (
	errEnded  = errors.New("the call has ended")
	errNobody = errors.New("nobody answers primitives here")
)

// attend reads a command's message and returns the answer to it. An error means that the
// command is gone or cannot be read.
func (c *Caller) attend(conn *net.UnixConn) (answer, error) {
	m, release, err := c.door.readMessage(c.ctx, conn)
	defer release()
	if errors.Is(err, errTooLarge) {
		return complaint(statusMisuse, err.Error()), nil
	}
	if err != nil {
		return answer{}, err
	}
	r, wrong := understand(m)
	if wrong != nil {
		return *wrong, nil
	}
	// The message is complete, so the next read returns when the command ends.
	gone := make(chan struct{})
	c.door.work.Go(func() {
		defer close(gone)
		_, _ = conn.Read(make([]byte, 1)) // with any result the command is gone
	})
	data, err := c.put(r, gone)
	if err != nil {
		if errors.Is(err, errNobody) {
			return failure(fmt.Errorf("%s: %w", r.about, err)), nil
		}
		return answer{}, err
	}
	return r.conclude(data), nil
}

// put asks a question and waits for the answer, for the end of the call, or until the
// command is gone.
func (c *Caller) put(r request, gone <-chan struct{}) ([]byte, error) {
	if c.asks == nil {
		return nil, errNobody
	}
	id, answered, err := c.ask(r)
	if err != nil {
		return nil, err
	}
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiting, id)
	}()
	select {
	case data := <-answered:
		return data, nil
	case <-c.ctx.Done():
	case <-gone:
		// The end of the call also ends the read that closes gone.
		if c.ctx.Err() == nil {
			return nil, errGone
		}
	}
	select {
	case data := <-answered:
		return data, nil
	default:
		return nil, errEnded
	}
}

// ask numbers a question and sends it.
func (c *Caller) ask(r request) (id string, answered chan []byte, err error) {
	c.asking.Lock()
	defer c.asking.Unlock()
	if c.ctx.Err() != nil {
		return "", nil, errEnded
	}
	if r.describes {
		c.descriptions++
		id = "?" + strconv.Itoa(c.descriptions)
	} else {
		c.calls++
		id = strconv.Itoa(c.calls)
	}
	answered = make(chan []byte, 1)
	c.mu.Lock()
	c.waiting[id] = answered
	c.mu.Unlock()
	c.asks(Question{Caller: c, ID: id, Name: r.name, Data: r.data})
	return id, answered, nil
}

// outcome is the content of an answer.
type outcome struct {
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// conclude turns the host's answer into the output of the command.
func (r request) conclude(data []byte) answer {
	fail := func(text string) answer { return complaint(statusFailed, r.about+": "+text) }
	if len(data) > maxMessage {
		return fail(fmt.Sprintf("the result is larger than %d MiB", maxMessage>>20))
	}
	var o outcome
	if err := json.Unmarshal(data, &o); err != nil {
		return fail("the answer cannot be read: " + err.Error())
	}
	if o.Error != nil {
		return fail(o.Error.Message)
	}
	if o.Result == nil {
		o.Result = json.RawMessage("null")
	}
	text, err := r.show(o.Result)
	if err != nil {
		return fail(err.Error())
	}
	return answer{status: statusDone, stdout: text}
}
