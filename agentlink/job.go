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

// work is one call on the machine: what it says, from its offer until its home has the
// result. It is the sink and the host of the program.
type job struct {
	callID, home string
	stop         context.CancelCauseFunc // stops the program
	wake         chan struct{}           // holds one token when there is something to send

	mu      sync.Mutex
	program *program
	items   []item // what is held, in order
	bytes   int
	next    uint64 // number of the item to come
	offsets map[string]int64
	sent    uint64 // highest number that went out on any stream
	uses    map[uint64]chan json.RawMessage
	ended   bool

	released chan struct{} // closed when its home wants no more of it
}

// Bounds on what a call holds for its home to hear.
const (
	maxBufferedBytes = 1 << 20
	maxBufferedItems = 4096
	// mergeLimit is the size up to which output is added to the item before it.
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

// Output takes output of the program.
func (w *job) Output(stream string, p []byte) {
	if len(p) == 0 {
		return
	}
	kind := itemStdout
	if stream == surfaces.StreamStderr {
		kind = itemStderr
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(p) > 0 {
		n := min(len(p), mergeLimit)
		w.output(kind, stream, p[:n])
		p = p[n:]
	}
	w.signal()
}

func (w *job) output(kind byte, stream string, p []byte) {
	offset := w.offsets[stream]
	w.offsets[stream] += int64(len(p))
	if n := len(w.items); n > 0 {
		if l := &w.items[n-1]; l.kind == kind && l.number > w.sent && len(l.body)+len(p) <= mergeLimit {
			l.body = append(l.body, p...)
			w.bytes += len(p)
			return
		}
	}
	w.append(item{kind: kind, offset: offset, body: append([]byte(nil), p...)})
}

// Event takes what the program says beside its output.
func (w *job) Event(e surfaces.Event) {
	switch e.Kind {
	case surfaces.EventDisplay, surfaces.EventNotice, surfaces.EventNotify:
	default:
		return // is the home's own to say, or not for a machine
	}
	body, err := json.Marshal(e)
	if err != nil || len(body) > maxSmall {
		body, _ = json.Marshal(surfaces.Event{Kind: surfaces.EventNotice, Name: "event_dropped", Text: "an event was too large to be sent, and was dropped"})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.append(item{kind: itemEvent, body: body})
	w.signal()
}

// Ask takes a use in.
func (w *job) Ask(u surfaces.Use) func(context.Context) json.RawMessage {
	body, err := json.Marshal(use{Seq: u.Seq, Name: u.Name, Data: u.Data})
	if err != nil || len(body) > maxSmall {
		refusal := json.RawMessage(`{"error":{"type":"invalid","message":"the arguments are too long to be sent"}}`)
		return func(context.Context) json.RawMessage { return refusal }
	}
	c := make(chan json.RawMessage, 1)
	w.mu.Lock()
	w.uses[w.next] = c
	w.append(item{kind: itemUse, body: body})
	w.signal()
	w.mu.Unlock()
	return func(ctx context.Context) json.RawMessage {
		select {
		case a := <-c:
			return a
		case <-ctx.Done():
			return nil
		}
	}
}

// answered takes the answer to a use; the item is not needed any more.
func (w *job) settle(a answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.uses[a.Use]
	if c == nil {
		return
	}
	delete(w.uses, a.Use)
	c <- a.Answer
	for i := range w.items {
		if w.items[i].number == a.Use {
			w.drop(i)
			return
		}
	}
}

func (w *job) markStarted() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.append(item{kind: itemStarted})
	w.signal()
}

// end notes the result. There is always one that fits.
func (w *job) finish(res surfaces.Result) {
	// What was printed has gone before.
	res.Stdout, res.Stderr, res.Truncated = "", "", nil
	body, err := json.Marshal(res)
	if err == nil && len(body) > maxMessage-64 {
		err = fmt.Errorf("the result has %d bytes, over the limit of %d", len(body), maxMessage-64)
	}
	if err != nil {
		body, _ = json.Marshal(surfaces.Failed(surfaces.Partial{CallID: w.callID}, surfaces.CodeInternal, "the result cannot be sent: "+err.Error()))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.append(item{kind: itemEnd, body: body})
	w.ended = true
	w.signal()
}

// put adds an item. Old output and events give way when too much is held; what waits for
// an answer, and the end, do not. w.mu is held.
func (w *job) append(it item) {
	it.number = w.next
	w.next++
	w.items = append(w.items, it)
	w.bytes += len(it.body)
	for i := 0; (w.bytes > maxBufferedBytes || len(w.items) > maxBufferedItems) && i < len(w.items)-1; {
		if k := w.items[i].kind; k == itemUse || k == itemEnd {
			i++
			continue
		}
		w.drop(i)
	}
}

func (w *job) drop(i int) {
	w.bytes -= len(w.items[i].body)
	w.items = append(w.items[:i], w.items[i+1:]...)
}

func (w *job) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// after gives what is held from a number on, and whether the end is among it. Uses
// that wait are given whatever their number, the first time.
func (w *job) itemsFrom(number uint64, again bool) []item {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, _ := slices.BinarySearchFunc(w.items, number, func(it item, n uint64) int { return cmp.Compare(it.number, n) })
	var list []item
	if again {
		for _, it := range w.items[:at] {
			if it.kind == itemUse {
				list = append(list, it)
			}
		}
	}
	list = append(list, w.items[at:]...)
	if n := len(w.items); n > 0 {
		w.sent = max(w.sent, w.items[n-1].number)
	}
	return list
}

// needs reports whether the program has still to come.
func (w *job) needsProgram() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.program == nil && !w.ended
}

// carry speaks with the call's home over one stream, until that has the result: then
// forget is true. begin is told of the program when it comes.
func (w *job) deliver(ctx context.Context, m *mesh.Mesh, addr string, begin func(*program)) (forget bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := m.StreamAt(ctx, addr, methodCall)
	if err != nil {
		return false, err
	}
	defer s.Cancel()
	need := w.needsProgram()
	if err := sendJSON(s, claim{CallID: w.callID, Home: w.home, Need: need}); err != nil && !errors.Is(err, io.EOF) {
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
		err := w.send(ctx, s, open.Next)
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
			w.settle(*said.Answer)
		case said.Stop:
			w.stop(errStopped)
		case said.Done:
			_ = s.CloseSend() // the home has all; whether it hears that is its own matter
			return true, nil
		}
	}
}

var errStopped = errors.New("agentlink: the call was stopped")

// send sends what is held and what comes, in order.
func (w *job) send(ctx context.Context, s *mesh.Stream, next uint64) error {
	for again := true; ; again = false {
		for _, it := range w.itemsFrom(next, again) {
			if err := send(s, it.encode()); err != nil {
				return err
			}
			next = max(next, it.number+1)
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// keepTrying are the pauses between two tries to reach a call's home.
const (
	minRetryPause = 50 * time.Millisecond
	maxRetryPause = 30 * time.Second
)
