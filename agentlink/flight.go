package agentlink

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/surfaces"
)

// flight is a call of this node's that runs, or is to run, on a machine.
type flight struct {
	hub     *Hub
	attempt surfaces.Attempt
	machine Machine
	began   time.Time

	claimed  chan struct{} // closed when the machine has said that it has the call
	stopping chan struct{} // closed when the call is to be stopped
	done     chan struct{} // closed when there is a result

	mu      sync.Mutex
	claim   sync.Once
	stop    sync.Once
	next    uint64 // number of the item that is to come
	said    map[string]int64
	current context.CancelCauseFunc // ends the stream that is served now
	left    bool                    // Execute has returned: the sink takes no more events
	result  *surfaces.Result
	overAt  time.Time
}

const (
	// offerEvery is how often a call is offered that the machine has not claimed yet.
	offerEvery = time.Second
	// slack is how long after a call's deadline its machine is waited for: a machine that
	// can be reached has answered by then.
	slack = 1200 * time.Millisecond
	// stopWithin is how long a machine is waited for that was told to stop a call.
	stopWithin = 3 * time.Second
	// inlineProgram is the longest program, in bytes of code and input, that goes with
	// its offer.
	inlineProgram = 32 << 10
	// keepOver and keepOverFor bound the calls that were given up, and whose results are
	// still taken.
	keepOver    = 1024
	keepOverFor = 24 * time.Hour
	// openUses is how many primitives of a call may wait for their answers.
	openUses = 1024
)

// Execute runs an attempt on the machine that its call is linked to. It is never tried
// again: when the machine does not come back in time the outcome is unknown, and a
// result that comes later goes to HubConfig.Late.
func (h *Hub) Execute(ctx context.Context, a surfaces.Attempt) surfaces.Outcome {
	f := &flight{
		hub: h, attempt: a, began: time.Now(), next: 1, said: map[string]int64{},
		claimed: make(chan struct{}), stopping: make(chan struct{}), done: make(chan struct{}),
	}
	f.event(surfaces.Event{Kind: surfaces.EventPlaced})
	m, refusal := f.find()
	if refusal != nil {
		return f.refused(refusal)
	}
	f.machine = m
	h.mu.Lock()
	h.flights[a.CallID] = f
	h.mu.Unlock()
	return surfaces.Outcome{Result: f.run(ctx)}
}

// Flies reports whether a call is on its way at a machine, and Stop stops it there.
func (h *Hub) Flies(callID string) bool {
	f := h.flight(callID)
	return f != nil && !f.isOver()
}

// Stop makes a call end that runs on a machine. It returns at once.
func (h *Hub) Stop(callID string) {
	if f := h.flight(callID); f != nil {
		f.stop.Do(func() { close(f.stopping) })
	}
}

func (h *Hub) flight(callID string) *flight {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.flights[callID]
}

func (f *flight) isOver() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.left || f.result != nil
}

// find gives the machine, if it has the call's language.
func (f *flight) find() (Machine, *surfaces.Refusal) {
	call := &f.attempt.Call
	if call.Linked == nil {
		return Machine{}, &surfaces.Refusal{Code: surfaces.CodeMachineNotLinked, Message: "no machine is linked for the call; nothing ran"}
	}
	m, ok := f.hub.cfg.Directory.Find(call.Actor, call.Linked.Place, call.Linked.Name)
	switch {
	case !ok:
		return m, f.unlinked()
	case len(m.Languages) > 0 && !slices.Contains(m.Languages, string(call.Language)):
		return m, &surfaces.Refusal{
			Code:       surfaces.CodeUnsupportedLanguage,
			Message:    fmt.Sprintf("machine %q has no %s; nothing ran", m.Name, call.Language),
			Suggestion: "Set language to one that the machine has: " + strings.Join(m.Languages, ", ") + ".",
		}
	}
	return m, nil
}

func (f *flight) unlinked() *surfaces.Refusal {
	return &surfaces.Refusal{
		Code:       surfaces.CodeMachineNotLinked,
		Message:    fmt.Sprintf("machine %q is not linked any more; nothing ran", f.attempt.Call.Linked.Name),
		Suggestion: "Set machine to one that is linked; locus machines lists them.",
	}
}

func (f *flight) unreachable() *surfaces.Refusal {
	return &surfaces.Refusal{
		Code: surfaces.CodeMachineUnreachable, RetryAfterS: 5,
		Message:    fmt.Sprintf("machine %q is not connected: it is asleep or switched off, or its network is away; nothing ran", f.machine.Name),
		Suggestion: "Wait until locus machines shows the machine as connected, or set surface to one that is.",
	}
}

// run offers the call until the machine has it, and waits for its result.
func (f *flight) run(ctx context.Context) surfaces.Result {
	deadline := time.NewTimer(f.attempt.Call.Timeout + slack)
	defer deadline.Stop()
	again := time.NewTimer(0)
	defer again.Stop()
	claimed, stopping, stopped := f.claimed, f.stopping, (<-chan time.Time)(nil)
	offered := false // the machine may have it
	for {
		changed := f.hub.cfg.Directory.Changed()
		select {
		case <-again.C:
			said, err := f.offer(ctx)
			switch {
			case err == nil && said.Sent:
				offered = true
			case offered: // it may have it by an earlier one
			case err == nil && said.Busy:
				return f.drop(&surfaces.Refusal{
					Code: surfaces.CodeNoCapacity, RetryAfterS: 2,
					Message: fmt.Sprintf("machine %q has more calls before it than it takes; nothing ran", f.machine.Name),
				})
			default:
				return f.drop(f.unreachable())
			}
			again.Reset(offerEvery)
		case <-claimed:
			claimed = nil
			again.Stop()
		case <-changed:
			if m, ok := f.hub.cfg.Directory.Find(f.attempt.Call.Actor, f.machine.Place, f.machine.Name); !ok || m.ID != f.machine.ID {
				return f.giveUp(offered, "the machine was unlinked under the call; it may have run there")
			}
		case <-stopping:
			stopping, stopped = nil, time.After(stopWithin)
			if claimed != nil {
				// Its stream, when it comes, is told. Until then nothing more is offered.
				again.Stop()
			}
		case <-stopped:
			return f.giveUp(offered, "the machine was told to stop the call and has not answered; the call may have run there")
		case <-f.done:
			return f.ended()
		case <-deadline.C:
			return f.giveUp(offered, "the machine has not come back with a result within the call's deadline; the call may have run there, or may still run")
		case <-ctx.Done():
			return f.giveUp(offered, "this node closes; the call may have run on the machine, or may still run there")
		}
	}
}

// offer puts the call before the machine, wherever its connection is.
func (f *flight) offer(ctx context.Context) (told, error) {
	o := offer{CallID: f.attempt.CallID, Home: f.hub.cfg.Node}
	call := &f.attempt.Call
	p := f.program()
	if len(call.Files) == 0 && len(call.Code)+len(call.Stdin) <= inlineProgram && p.Timeout > briefCall {
		o.Program = p
	}
	directory := f.hub.cfg.Directory
	for look := 0; ; look++ {
		m, ok := directory.Find(call.Actor, f.machine.Place, f.machine.Name)
		if !ok {
			return told{}, nil
		}
		said, err := f.hub.offerAt(ctx, m, o)
		if err == nil && (said.Sent || said.Busy) || look > 0 {
			return said, err
		}
		if err := directory.Fresh(ctx); err != nil {
			return said, err
		}
	}
}

// offerWithin bounds the question to the node that holds the machine.
const offerWithin = 3 * time.Second

func (h *Hub) offerAt(ctx context.Context, m Machine, o offer) (told, error) {
	if m.Node == h.cfg.Node || m.Node == "" {
		return h.offer(m.ID, o), nil
	}
	// What came here a moment ago is not in the directory yet.
	if said := h.offerUnnoted(m.ID, o); said.Sent || said.Busy {
		return said, nil
	}
	ctx, cancel := context.WithTimeout(ctx, offerWithin)
	defer cancel()
	said, err := ask[told](ctx, h.cfg.Mesh(), m.Node, methodOffer, offered{Machine: m.ID, Offer: o})
	var unreachable *mesh.UnreachableError
	if errors.As(err, &unreachable) && unreachable.Sent {
		return told{Sent: true}, nil // it may have gone out
	}
	return said, err
}

func (h *Hub) offerUnnoted(machine string, o offer) told {
	h.mu.Lock()
	at := h.attached[machine]
	fresh := at != nil && !at.noted
	h.mu.Unlock()
	if !fresh {
		return told{}
	}
	return h.offer(machine, o)
}

func (f *flight) program() *program {
	call := &f.attempt.Call
	return &program{
		Actor: call.Actor, Thought: call.Thought, Language: call.Language, Code: call.Code, Stdin: call.Stdin,
		Timeout: rounded(call.Timeout - time.Since(f.began)), Files: call.Files, Primitives: f.attempt.Host != nil,
	}
}

// rounded gives what is left of a deadline as people would say it: it is told them when
// it has passed.
func rounded(left time.Duration) time.Duration {
	const to = 10 * time.Millisecond
	return max((left + to - 1).Truncate(to), to)
}

// drop ends a flight that surely never began.
func (f *flight) drop(r *surfaces.Refusal) surfaces.Result {
	f.hub.mu.Lock()
	delete(f.hub.flights, f.attempt.CallID)
	f.hub.mu.Unlock()
	return f.refused(r).Result
}

func (f *flight) refused(r *surfaces.Refusal) surfaces.Outcome {
	return surfaces.Outcome{Result: r.Result(f.partial())}
}

func (f *flight) partial() surfaces.Partial {
	return surfaces.Partial{
		CallID: f.attempt.CallID, Node: f.hub.cfg.Node, At: f.attempt.Call.Coordinates(), Attempts: f.attempt.Number,
		DurationMS: float64(time.Since(f.began).Microseconds()) / 1000,
	}
}

// ended gives the result, and lets go of the flight once the machine has surely been
// told that it is here.
func (f *flight) ended() surfaces.Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.over()
}

// over keeps what the machine may come back for, and gives the result if there is one.
// f.mu is held.
func (f *flight) over() surfaces.Result {
	f.left = true
	f.hub.keep(f)
	return f.shed()
}

// shed gives the result, and lets go of what nobody asks for any more: flights that are
// over are many, and what they hold may be long. f.mu is held.
func (f *flight) shed() (res surfaces.Result) {
	call := &f.attempt.Call
	call.Code, call.Stdin, call.Files = "", "", nil
	if f.result != nil {
		res = *f.result
		f.result = &surfaces.Result{CallID: res.CallID}
	}
	return res
}

// giveUp ends the wait. The flight is kept for a result that comes later.
func (f *flight) giveUp(offered bool, why string) surfaces.Result {
	if !offered {
		return f.drop(f.unreachable())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.result != nil {
		return f.over()
	}
	f.over()
	return surfaces.Failed(f.partial(), surfaces.CodeOutcomeUnknown, why)
}

// keep remembers a flight that is over, and forgets the oldest ones. f.mu is held.
func (h *Hub) keep(f *flight) {
	f.overAt = time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = append(h.over, f)
	drop := 0
	for drop < len(h.over) && (len(h.over)-drop > keepOver || time.Since(h.over[drop].overAt) > keepOverFor) {
		if id := h.over[drop].attempt.CallID; h.flights[id] == h.over[drop] {
			delete(h.flights, id)
		}
		drop++
	}
	h.over = append(h.over[:0:0], h.over[drop:]...)
}

// land takes what a machine says of a call. A machine that comes again takes the place
// of what it left behind.
func (h *Hub) land(ctx context.Context, s *mesh.Stream, machine string, c claim) error {
	f := h.flight(c.CallID)
	if f == nil || f.machine.ID != machine {
		return errForgotten
	}
	f.claim.Do(func() { close(f.claimed) })
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(ctx, s.Cancel)()
	f.mu.Lock()
	if c.Need && f.missed() {
		f.mu.Unlock()
		return errForgotten
	}
	if f.current != nil {
		f.current(errReplaced)
	}
	f.current = end
	open := opened{Next: f.next}
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

// missed reports whether a machine asks too late what it is to run: nobody waits any
// more. It has not begun then, so that the outcome is known after all. f.mu is held.
func (f *flight) missed() bool {
	if f.left && f.result == nil {
		res := f.unreachable().Result(f.partial())
		f.result = &res
		f.late()
	}
	return f.left
}

// serve takes items until the result is there.
func (f *flight) serve(ctx context.Context, s *mesh.Stream, finished bool) error {
	var sending sync.Mutex
	say := func(ctx context.Context, w word) error {
		sending.Lock()
		defer sending.Unlock()
		if err := ctx.Err(); err != nil {
			return err
		}
		return sendJSON(s, w)
	}
	asking, cancel := context.WithCancel(ctx) // ends with the program
	var waits sync.WaitGroup
	defer func() { cancel(); waits.Wait() }()
	waits.Go(func() {
		select {
		case <-f.stopping:
			_ = say(asking, word{Stop: true}) // a stream that broke is served anew, and told again
		case <-asking.Done():
		}
	})
	open := make(chan struct{}, openUses)
	for !finished {
		b, err := receive(s, maxMessage)
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: a call without an end", mesh.ErrProtocol)
		}
		if err != nil {
			return err
		}
		it, err := decodeItem(b)
		if err != nil {
			return err
		}
		if it.kind != itemUse {
			if finished, err = f.take(it); err != nil {
				return err
			}
			continue
		}
		select {
		case open <- struct{}{}:
		default:
			return fmt.Errorf("%w: too many primitives wait", mesh.ErrProtocol)
		}
		wait, err := f.asks(it)
		if err != nil {
			return err
		}
		waits.Go(func() {
			defer func() { <-open }()
			if a := wait(asking); a != nil {
				_ = say(asking, word{Answer: &answer{Use: it.number, Answer: a}}) // asked again on the next stream
			}
		})
	}
	// The machine closes when it has heard that. One that does not read is not waited for.
	cancel()
	late := time.AfterFunc(firstWithin, s.Cancel)
	defer late.Stop()
	if err := say(ctx, word{Done: true}); err != nil {
		return err
	}
	if _, err := receive(s, maxSmall); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// asks hands a use to the call's host. One that was asked before is known to it by its
// sequence.
func (f *flight) asks(it item) (func(context.Context) json.RawMessage, error) {
	var u use
	if err := json.Unmarshal(it.body, &u); err != nil {
		return nil, fmt.Errorf("%w: %w", mesh.ErrProtocol, err)
	}
	f.mu.Lock()
	f.next = max(f.next, it.number+1)
	gone := f.left || f.result != nil || f.attempt.Host == nil
	f.mu.Unlock()
	if gone {
		return func(context.Context) json.RawMessage { return hostGone }, nil
	}
	return f.attempt.Host.Ask(surfaces.Use{
		CallID: f.attempt.CallID, Actor: f.attempt.Actor, Attempt: f.attempt.Number, Seq: u.Seq, Name: u.Name, Data: u.Data,
		Left: max(f.attempt.Call.Timeout-time.Since(f.began), 0),
	}), nil
}

// hostGone is the answer where nobody performs primitives any more.
var hostGone = json.RawMessage(`{"error":{"type":"ended","message":"the call has ended"}}`)

// take takes an item; one that came before is nothing new.
func (f *flight) take(it item) (finished bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.result != nil {
		return true, nil
	}
	if it.number < f.next {
		return false, nil
	}
	switch it.kind {
	case itemStarted:
		f.emit(surfaces.Event{Kind: surfaces.EventStarted, ID: f.attempt.CallID, Name: f.hub.cfg.Node})
	case itemStdout, itemStderr:
		f.output(it)
	case itemEvent:
		err = f.forward(it.body)
	case itemEnd:
		var res surfaces.Result
		if err = json.Unmarshal(it.body, &res); err == nil {
			f.finish(res)
			finished = true
		}
	}
	if err != nil {
		return false, fmt.Errorf("%w: %w", mesh.ErrProtocol, err)
	}
	f.next = it.number + 1
	return finished, nil
}

// mender is a sink that can be told of output that was skipped.
type mender interface{ Skip(stream string, n int64) }

// output hands output on, and what is missing before it. f.mu is held.
func (f *flight) output(it item) {
	stream := it.stream()
	gap := it.offset - f.said[stream]
	if gap < 0 {
		return
	}
	f.said[stream] = it.offset + int64(len(it.body))
	if f.attempt.Sink == nil {
		return
	}
	// What comes late is taken too: it belongs to the result that comes after it.
	if m, ok := f.attempt.Sink.(mender); ok && gap > 0 {
		m.Skip(stream, gap)
	}
	f.attempt.Sink.Output(stream, it.body)
}

// forward hands on what a program may say beside its output. f.mu is held.
func (f *flight) forward(body []byte) error {
	var e surfaces.Event
	if err := json.Unmarshal(body, &e); err != nil {
		return err
	}
	switch e.Kind {
	case surfaces.EventDisplay:
		if e.Display == nil {
			return errors.New("a display without one")
		}
	case surfaces.EventNotice, surfaces.EventNotify:
	default:
		return fmt.Errorf("an event of kind %.40q", e.Kind)
	}
	f.emit(e)
	return nil
}

func (f *flight) event(e surfaces.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.emit(e)
}

// emit hands an event on. f.mu is held.
func (f *flight) emit(e surfaces.Event) {
	if !f.left && f.attempt.Sink != nil {
		f.attempt.Sink.Event(e)
	}
}

// finish takes the result: for who waits, or who waited. f.mu is held.
func (f *flight) finish(res surfaces.Result) {
	f.judge(&res)
	f.result = &res
	close(f.done)
	if f.left {
		f.late()
	}
}

// late hands on a result that nobody waited for. f.mu is held.
func (f *flight) late() {
	if !f.hub.cfg.Late(f.attempt.CallID, f.shed()) {
		f.hub.cfg.Log.Debug("a result came after its call was forgotten", "call_id", f.attempt.CallID, "machine", f.machine.Name)
	}
}

// verdicts are the codes that a machine may give.
var verdicts = []surfaces.Code{
	surfaces.CodeTimeout, surfaces.CodeSegfault, surfaces.CodeOutOfMemory, surfaces.CodeKilled, surfaces.CodeStopped, surfaces.CodeException,
	surfaces.CodeConsentDenied, surfaces.CodeConsentTimeout, surfaces.CodeOutcomeUnknown, surfaces.CodeUnsupportedLanguage,
	surfaces.CodeNoCapacity, surfaces.CodeInvalidArgument, surfaces.CodeInternal,
}

// judge keeps a machine to what it can know: how its program ended, and what that gave.
func (f *flight) judge(res *surfaces.Result) {
	p := f.partial()
	switch {
	case res.Code == nil && res.Error == nil && res.Status == surfaces.StatusDone:
		res.ErrorType = nil
	case res.Code != nil && res.Error != nil && slices.Contains(verdicts, *res.Code):
		res.Fail(*res.Code, *res.Error)
	default:
		*res = surfaces.Failed(p, surfaces.CodeOutcomeUnknown, "the machine's answer is none; the call may have run there")
	}
	if kept := soundFiles(res.Files); len(kept) < len(res.Files) {
		res.Notice = append(res.Notice, surfaces.Notice{Kind: "files", Text: "not taken from the machine: " + surfaces.Count(len(res.Files)-len(kept), "file", "files") + ", too many, too large, or with names that do not mean the same everywhere"})
		res.Files = kept
	}
	res.CallID, res.Node, res.Attempts, res.DurationMS = p.CallID, p.Node, cmp.Or(p.Attempts, 1), p.DurationMS
	res.Stdout, res.Stderr, res.Truncated = "", "", nil // what was said is in the record
	res.SessionCreated, res.StateLost, res.StateDiff, res.Fix, res.RetryAfterS = false, surfaces.StateLost{}, nil, nil, nil
	res.Language, res.StateMode, res.SessionID, res.SessionName, res.VenvID, res.Surface, res.Machine = nil, nil, nil, nil, nil, nil, nil
	p.At.Into(res)
}

// soundFiles gives the files that a machine may send back, with digests of what they
// really hold.
func soundFiles(files []surfaces.File) []surfaces.File {
	var kept []surfaces.File
	total := 0
	for _, f := range files {
		inside, ok := strings.CutPrefix(f.Name, surfaces.OutFolder+"/")
		if total += len(f.Data); !ok || surfaces.FileNameFault(inside) != "" || len(kept) == surfaces.MaxFiles || total > surfaces.MaxFilesBytes {
			continue
		}
		kept = append(kept, surfaces.NewFile(f.Name, f.Data))
	}
	return kept
}
