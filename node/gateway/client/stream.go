package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// Names of the events of a call's stream.
const (
	EventStarted       = surfaces.EventStarted
	EventStdout        = surfaces.StreamStdout
	EventStderr        = surfaces.StreamStderr
	EventDisplay       = surfaces.EventDisplay
	EventNotice        = surfaces.EventNotice
	EventPrimitive     = surfaces.EventPrimitive
	EventClarification = surfaces.EventClarification
	EventNotify        = surfaces.EventNotify
	EventResult        = "result"
)

// Stream runs a call and emits its events as they happen, each once and in order, and
// returns its result. If the connection breaks, it reconnects with the call's id and the
// last output offset.
//
// A refused call is a result. The error is an *EncodeError or *UnreachableError if nothing was
// started, a *ConnectionLostError if the connection was lost for good, the cause of ctx if that
// has ended, or the error of emit. When the client leaves early, the node stops the call after
// a grace time, unless it runs in the background.
func (c *Client) Stream(ctx context.Context, args Arguments, emit func(gateway.StreamEvent) error) (surfaces.Result, error) {
	f := &follower{c: c, emit: emit}
	begin := func() (*http.Response, error) {
		return c.send(ctx, http.MethodPost, "/v1/tools/execute_code", nil, args, streamType)
	}
	f.again = args.IdempotencyKey != nil && *args.IdempotencyKey != ""
	return f.run(ctx, begin)
}

// Follow is Stream for an existing call. It emits the events from an output offset on; with
// 0 all that the node still holds.
func (c *Client) Follow(ctx context.Context, callID string, from int64, emit func(gateway.StreamEvent) error) (surfaces.Result, error) {
	f := &follower{c: c, emit: emit, callID: callID, offset: from, joining: true}
	return f.run(ctx, nil)
}

// follower reads one call over any number of connections. It is for one goroutine.
type follower struct {
	c    *Client
	emit func(gateway.StreamEvent) error
	// again says that repeating the request is safe, because it has an idempotency key.
	again bool
	// joining says that the call was not reached yet, so that a refusal means that it is
	// unknown, not that it got lost.
	joining bool

	callID string
	offset int64
	told   memory
	alive  time.Time
}

// errStopped marks an error after which reconnecting is useless.
type errStopped struct{ error }

func (e errStopped) Unwrap() error { return e.error }

func (f *follower) run(ctx context.Context, begin func() (*http.Response, error)) (surfaces.Result, error) {
	f.alive = time.Now()
	pause := f.c.pause
	for {
		before := f.alive
		result, err := f.connect(ctx, begin)
		if err == nil {
			return result, nil
		}
		var stop errStopped
		if errors.As(err, &stop) {
			return surfaces.Result{}, stop.error
		}
		if ctx.Err() != nil {
			return surfaces.Result{}, context.Cause(ctx)
		}
		var unreachable *UnreachableError
		if f.callID == "" && errors.As(err, &unreachable) && !f.again {
			return surfaces.Result{}, err
		}
		if f.callID == "" && !f.again || time.Since(f.alive)+pause > f.c.cfg.ReconnectFor {
			return surfaces.Result{}, f.giveUp(err)
		}
		if f.alive.After(before) {
			pause = f.c.pause
		}
		if f.c.cfg.OnReconnect != nil {
			f.c.cfg.OnReconnect(f.callID, f.offset, err)
		}
		if err := wait(ctx, pause); err != nil {
			return surfaces.Result{}, err
		}
		pause = min(2*pause, longPause)
	}
}

// giveUp returns the final error: a *ConnectionLostError, unless it is certain that nothing was
// started.
func (f *follower) giveUp(err error) error {
	var unreachable *UnreachableError
	if errors.As(err, &unreachable) && (f.joining || f.callID == "" && !f.told.started) {
		return err
	}
	return &ConnectionLostError{CallID: f.callID, Offset: f.offset, Err: err}
}

// connect makes one connection and reads it to the result. After an error other than
// errStopped another connection may work.
func (f *follower) connect(ctx context.Context, begin func() (*http.Response, error)) (surfaces.Result, error) {
	open := begin
	if f.callID != "" {
		open = func() (*http.Response, error) {
			from := url.Values{"from": {strconv.FormatInt(f.offset, 10)}}
			return f.c.send(ctx, http.MethodGet, executionPath(f.callID), from, nil, streamType)
		}
	}
	resp, err := open()
	var unsendable *EncodeError
	if errors.As(err, &unsendable) {
		return surfaces.Result{}, errStopped{err}
	}
	if err != nil {
		f.told.started = f.told.started || !isUnreachable(err)
		return surfaces.Result{}, err
	}
	body := watch(resp.Body, f.c.cfg.StreamTimeout)
	defer body.Close()
	resp.Body = body
	if resp.StatusCode != http.StatusOK || !isStream(resp) {
		return f.plainAnswer(ctx, resp)
	}
	if f.callID == "" {
		f.callID = resp.Header.Get(gateway.CallHeader)
	}
	f.joining, f.told.started = false, true
	f.told.rewind()
	return f.read(ctx, resp, newEventReader(body, MaxAnswer))
}

// plainAnswer handles an answer that is no stream: a refused or unknown call, or a node
// that cannot serve at the moment.
func (f *follower) plainAnswer(ctx context.Context, resp *http.Response) (surfaces.Result, error) {
	text, err := f.c.readAnswer(ctx, resp)
	if err != nil {
		return surfaces.Result{}, err
	}
	result, err := decodeResult(text)
	refused := &RefusedError{HTTPStatus: resp.StatusCode, Result: result}
	switch {
	case f.callID != "" && !f.joining && resp.StatusCode >= http.StatusInternalServerError:
		return surfaces.Result{}, refused
	case err != nil:
		return surfaces.Result{}, errStopped{f.c.misanswered(resp, "the answer is not the object that answers a call")}
	case f.callID == "", resp.StatusCode == http.StatusOK && result.Status != surfaces.StatusRunning:
		return result, nil
	case resp.StatusCode == http.StatusOK:
		return surfaces.Result{}, errStopped{f.c.misanswered(resp, "it does not stream the call's events")}
	case f.joining:
		return surfaces.Result{}, errStopped{refused}
	}
	return surfaces.Result{}, errStopped{&ConnectionLostError{CallID: f.callID, Offset: f.offset, Err: refused}}
}

func (f *follower) read(ctx context.Context, resp *http.Response, events *eventReader) (surfaces.Result, error) {
	for {
		wire, err := events.next()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if errors.Is(err, errEventTooLong) {
			return surfaces.Result{}, errStopped{f.c.misanswered(resp, err.Error())}
		}
		if err != nil {
			return surfaces.Result{}, f.c.networkError(ctx, err)
		}
		f.alive = time.Now()
		if wire.name == EventResult {
			result, err := decodeResult(wire.data)
			if err != nil {
				return surfaces.Result{}, errStopped{f.c.misanswered(resp, "the result of the stream cannot be decoded")}
			}
			return result, nil
		}
		ev, fresh, err := f.take(wire)
		if err != nil {
			return surfaces.Result{}, errStopped{f.c.misanswered(resp, err.Error())}
		}
		if !fresh {
			continue
		}
		if err := f.emit(ev); err != nil {
			return surfaces.Result{}, errStopped{err}
		}
	}
}

// take decodes an event; false if it was emitted before.
func (f *follower) take(wire wireEvent) (gateway.StreamEvent, bool, error) {
	ev := gateway.StreamEvent{Name: wire.name, Data: json.RawMessage(wire.data), Offset: f.offset}
	if wire.id != "" {
		offset, err := strconv.ParseInt(wire.id, 10, 64)
		if err != nil || offset < 0 {
			return ev, false, errors.New("the id of an event is not an offset")
		}
		ev.Offset = offset
	}
	if !json.Valid(wire.data) {
		return ev, false, errors.New("the data of an event is not JSON")
	}
	if wire.name == EventStdout || wire.name == EventStderr {
		// Output is never repeated, because the request gives the offset. Several events
		// may have the same offset, if a character was split.
		f.offset = max(f.offset, ev.Offset)
		return ev, true, nil
	}
	if wire.name == EventStarted && f.callID == "" {
		var started struct {
			CallID string `json:"call_id"`
		}
		if err := json.Unmarshal(wire.data, &started); err != nil || started.CallID == "" {
			return ev, false, errors.New("the stream names no call")
		}
		f.callID = started.CallID
	}
	return ev, f.told.first(ev), nil
}

// Text returns the text of a stdout, stderr, notice or notify event, or the question of a
// clarification; empty for other events.
func Text(ev gateway.StreamEvent) string {
	var data struct {
		Text     string `json:"text"`
		Question string `json:"question"`
	}
	if json.Unmarshal(ev.Data, &data) != nil {
		return ""
	}
	return data.Text + data.Question
}

func isUnreachable(err error) bool {
	var unreachable *UnreachableError
	return errors.As(err, &unreachable)
}

// asConnectionLost turns a network error during a call into a *ConnectionLostError. It leaves
// more specific errors.
func asConnectionLost(ctx context.Context, err error, callID string) error {
	var misanswered *ProtocolError
	if ctx.Err() != nil || isUnreachable(err) || errors.As(err, &misanswered) {
		return err
	}
	return &ConnectionLostError{CallID: callID, Err: err}
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
