package agentlink

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/surfaces"
)

// job is one call on the machine, from its offer until its home node has the result. It
// buffers what the call's home has not received yet. It is the program's sink and host.
type job struct {
	callID, home string
	stop         context.CancelCauseFunc // stops the program
	wake         chan struct{}           // holds one token while there may be something to send

	mu      sync.Mutex
	program *program                        // nil until the home has sent it
	items   []item                          // buffered items, in order
	bytes   int                             // of the buffered items
	next    uint64                          // number of the next item
	offsets map[string]int64                // by stream: bytes of output so far
	sent    uint64                          // highest number that was sent on any stream
	uses    map[uint64]chan json.RawMessage // by item number: takes the answer to an unanswered primitive
	ended   bool                            // the result is among the items, which no others follow

	released chan struct{} // closed when the home needs no more of the call
}

// Bounds on the buffered items of a call.
const (
	maxBufferedBytes = 1 << 20
	maxBufferedItems = 4096
	// mergeLimit is the size up to which output is appended to the previous item.
	mergeLimit = 32 << 10
)

var (
	_ surfaces.Sink = (*job)(nil)
	_ surfaces.Host = (*job)(nil)
)

func newJob(callID, home string, p *program, stop context.CancelCauseFunc) *job {
	return &job{
		callID: callID, home: home, program: p, stop: stop, wake: make(chan struct{}, 1), next: 1, offsets: map[string]int64{},
		uses: map[uint64]chan json.RawMessage{}, released: make(chan struct{}),
	}
}

// Output buffers output of the program.
func (j *job) Output(stream string, p []byte) {
	if len(p) == 0 {
		return
	}
	kind := itemStdout
	if stream == surfaces.StreamStderr {
		kind = itemStderr
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(p) > 0 {
		n := min(len(p), mergeLimit)
		j.output(kind, stream, p[:n])
		p = p[n:]
	}
	j.signal()
}

func (j *job) output(kind byte, stream string, p []byte) {
	offset := j.offsets[stream]
	j.offsets[stream] += int64(len(p))
	if n := len(j.items); n > 0 {
		if l := &j.items[n-1]; l.kind == kind && l.number > j.sent && len(l.body)+len(p) <= mergeLimit {
			l.body = append(l.body, p...)
			j.bytes += len(p)
			return
		}
	}
	j.append(item{kind: kind, offset: offset, body: append([]byte(nil), p...)})
}

// Event buffers an event of the program.
func (j *job) Event(e surfaces.Event) {
	switch e.Kind {
	case surfaces.EventDisplay, surfaces.EventNotice, surfaces.EventNotify:
	default:
		return // only the home node may emit it
	}
	body, err := json.Marshal(e)
	if err != nil || len(body) > maxSmall {
		body, _ = json.Marshal(surfaces.Event{Kind: surfaces.EventNotice, Name: "event_dropped", Text: "an event was too large to be sent, and was dropped"})
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.append(item{kind: itemEvent, body: body})
	j.signal()
}

// Ask buffers a use of a primitive for the home, and returns a function that waits for the
// answer.
func (j *job) Ask(u surfaces.Use) func(context.Context) json.RawMessage {
	body, err := json.Marshal(use{Seq: u.Seq, Name: u.Name, Data: u.Data})
	if err != nil || len(body) > maxSmall {
		refusal := json.RawMessage(`{"error":{"type":"invalid","message":"the arguments are too long to be sent"}}`)
		return func(context.Context) json.RawMessage { return refusal }
	}
	c := make(chan json.RawMessage, 1)
	j.mu.Lock()
	j.uses[j.next] = c
	j.append(item{kind: itemUse, body: body})
	j.signal()
	j.mu.Unlock()
	return func(ctx context.Context) json.RawMessage {
		select {
		case a := <-c:
			return a
		case <-ctx.Done():
			return nil
		}
	}
}

// settle delivers the answer to a use, whose item is no longer needed.
func (j *job) settle(a answer) {
	j.mu.Lock()
	defer j.mu.Unlock()
	c := j.uses[a.Use]
	if c == nil {
		return
	}
	delete(j.uses, a.Use)
	c <- a.Answer
	for i := range j.items {
		if j.items[i].number == a.Use {
			j.drop(i)
			return
		}
	}
}

func (j *job) markStarted() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.append(item{kind: itemStarted})
	j.signal()
}

// finish buffers the result. One that cannot be sent is replaced by an error.
func (j *job) finish(res surfaces.Result) {
	// The output was sent as items.
	res.Stdout, res.Stderr, res.Truncated = "", "", nil
	body, err := json.Marshal(res)
	if err == nil && len(body) > maxMessage-64 {
		err = fmt.Errorf("the result has %d bytes, over the limit of %d", len(body), maxMessage-64)
	}
	if err != nil {
		body, _ = json.Marshal(surfaces.Failed(surfaces.Partial{CallID: j.callID}, surfaces.CodeInternal, "the result cannot be sent: "+err.Error()))
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.append(item{kind: itemEnd, body: body})
	j.ended = true
	j.signal()
}

// append adds an item. If too much is buffered it drops the oldest output and events, but
// never unanswered uses or the result. j.mu is held.
func (j *job) append(it item) {
	it.number = j.next
	j.next++
	j.items = append(j.items, it)
	j.bytes += len(it.body)
	for i := 0; (j.bytes > maxBufferedBytes || len(j.items) > maxBufferedItems) && i < len(j.items)-1; {
		if k := j.items[i].kind; k == itemUse || k == itemEnd {
			i++
			continue
		}
		j.drop(i)
	}
}

func (j *job) drop(i int) {
	j.bytes -= len(j.items[i].body)
	j.items = append(j.items[:i], j.items[i+1:]...)
}

func (j *job) signal() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// itemsFrom returns the buffered items from a number on. On a new stream (again) it also
// returns all unanswered uses before that number.
func (j *job) itemsFrom(number uint64, again bool) []item {
	j.mu.Lock()
	defer j.mu.Unlock()
	at, _ := slices.BinarySearchFunc(j.items, number, func(it item, n uint64) int { return cmp.Compare(it.number, n) })
	var list []item
	if again {
		for _, it := range j.items[:at] {
			if it.kind == itemUse {
				list = append(list, it)
			}
		}
	}
	list = append(list, j.items[at:]...)
	if n := len(j.items); n > 0 {
		j.sent = max(j.sent, j.items[n-1].number)
	}
	return list
}

// needsProgram reports whether the program must still be fetched from the home.
func (j *job) needsProgram() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.program == nil && !j.ended
}

// deliver exchanges messages with the call's home over one stream. forget is true once the
// home has the result or has forgotten the call. begin gets the program, if that was
// fetched.
func (j *job) deliver(ctx context.Context, m *mesh.Mesh, addr string, begin func(*program)) (forget bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := m.StreamAt(ctx, addr, methodCall)
	if err != nil {
		return false, err
	}
	defer s.Cancel()
	need := j.needsProgram()
	if err := sendJSON(s, claim{CallID: j.callID, Home: j.home, Need: need}); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	var open claimReply
	if err := receiveJSON(s, maxMessage, &open); err != nil {
		return isCode(err, codeForgotten), err
	}
	if need && open.Program != nil {
		begin(open.Program)
	}
	sending := make(chan error, 1)
	go func() {
		err := j.send(ctx, s, open.Next)
		if err != nil {
			s.Cancel()
		}
		sending <- err
	}()
	defer func() { cancel(); s.Cancel(); <-sending }()
	for {
		var said control
		if err := receiveJSON(s, maxMessage, &said); err != nil {
			return isCode(err, codeForgotten), err
		}
		switch {
		case said.Answer != nil:
			j.settle(*said.Answer)
		case said.Stop:
			j.stop(errStopped)
		case said.Done:
			_ = s.CloseSend() // the home has everything; whether this arrives does not matter
			return true, nil
		}
	}
}

var errStopped = errors.New("agentlink: the call was stopped")

// send sends the buffered items and then new ones, in order.
func (j *job) send(ctx context.Context, s *mesh.Stream, next uint64) error {
	for again := true; ; again = false {
		for _, it := range j.itemsFrom(next, again) {
			if err := send(s, it.encode()); err != nil {
				return err
			}
			next = max(next, it.number+1)
		}
		select {
		case <-j.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// Pauses between attempts to reach a call's home.
const (
	minRetryPause = 50 * time.Millisecond
	maxRetryPause = 30 * time.Second
)
