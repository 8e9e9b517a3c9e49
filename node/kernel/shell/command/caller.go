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

// Caller is one program, from before it runs until it has ended. Its methods may be
// called at the same time.
type Caller struct {
	door *Door
	name string
	ctx  context.Context // ends with the program
	end  context.CancelFunc
	asks func(Question)

	// asking is held while a question is put, so that the numbers come in order and
	// nothing is asked after the end.
	asking              sync.Mutex
	calls, descriptions int

	mu      sync.Mutex
	waiting map[string]chan []byte
}

// Question is what a command wants of the host.
type Question struct {
	// Caller is who asks. Its Tell takes the answer, an object with either "result" or
	// "error".
	Caller *Caller
	// ID counts the uses of functions from 1; those that ask what there is have a count
	// of their own, with a question mark before it.
	ID string
	// Name is NAMESPACE.FUNCTION, and Data the object of arguments.
	Name string
	Data json.RawMessage
}

// Name is the secret that a command must know to act for the caller. It is made for
// one program, so whoever kept it after that program's end has no use of it.
func (c *Caller) Name() string { return c.name }

// End takes the program's authority away: who waits for an answer hears that the
// call has ended, and nothing is asked any more when End has returned.
func (c *Caller) End() {
	c.asking.Lock()
	defer c.asking.Unlock()
	c.end()
	c.door.forget(c)
}

// Tell hands the answer to a question over. One whose command has gone is dropped.
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

// attend hears what a command wants and gives the answer to it. An error says that
// there is nobody to answer, or no more to be heard.
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
	// All has been said, so what there is to read next is the command's end.
	gone := make(chan struct{})
	c.door.work.Go(func() {
		defer close(gone)
		_, _ = conn.Read(make([]byte, 1)) // however it ends, the command is gone
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

// put asks a question and waits for the answer, for the end of the call or until the
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
		// The end of the call ends the reading too.
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

// ask gives the question its number and says it.
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

// outcome is what an answer's data is.
type outcome struct {
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// conclude makes of the data what the command gives out.
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
