package agentlink

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/surfaces"
)

// accept processes an item. Items that were received before are ignored.
func (f *hubCall) accept(it item) (finished bool, err error) {
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

// gapSink is a sink that can be told of skipped output.
type gapSink interface{ Skip(stream string, n int64) }

// output passes output on, after the size of any gap before it. f.mu is held.
func (f *hubCall) output(it item) {
	stream := it.stream()
	gap := it.offset - f.received[stream]
	if gap < 0 {
		return
	}
	f.received[stream] = it.offset + int64(len(it.body))
	if f.attempt.Sink == nil {
		return
	}
	// Output is passed on even after Execute has returned: it belongs to the late result.
	if m, ok := f.attempt.Sink.(gapSink); ok && gap > 0 {
		m.Skip(stream, gap)
	}
	f.attempt.Sink.Output(stream, it.body)
}

// forward passes on an event, if it is of a kind that a program may send. f.mu is held.
func (f *hubCall) forward(body []byte) error {
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

func (f *hubCall) event(e surfaces.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.emit(e)
}

// emit passes an event on, until Execute has returned. f.mu is held.
func (f *hubCall) emit(e surfaces.Event) {
	if !f.detached && f.attempt.Sink != nil {
		f.attempt.Sink.Event(e)
	}
}

// finish stores the result and wakes Execute, or delivers it late. f.mu is held.
func (f *hubCall) finish(res surfaces.Result) {
	f.sanitize(&res)
	f.result = &res
	close(f.done)
	if f.detached {
		f.deliverLate()
	}
}
