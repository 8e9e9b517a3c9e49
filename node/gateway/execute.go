package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/locusrun/locus/surfaces"
)

// executeCode starts a call and answers with its result or its events.
func (x *exchange) executeCode() error {
	from, _, err := resumeFrom(x.r)
	if err != nil {
		return err
	}
	e, background, err := x.start()
	if err != nil {
		return err
	}
	return x.call(e, background, from)
}

// call answers for a call that was just started: with its result, with its events from an
// output offset on, or with its present state if it runs in the background.
func (x *exchange) call(e Execution, background bool, from int64) error {
	x.names(e)
	defer x.g.metrics.callWhenDone(e, x.g.log)
	stream := wantsStream(x.r)
	switch {
	case ended(e) && (!stream || e.Result().Status == surfaces.StatusRefused):
		return x.result(e.Result()) // a refusal has its own HTTP status, even if a stream was requested
	case background && stream:
		s, _, stop := x.startStream()
		defer stop()
		return s.result(e.Result())
	case background:
		return x.result(e.Result())
	case stream:
		return x.follow(e, from)
	}
	return x.wait(e)
}

// start reads the request and starts the call.
func (x *exchange) start() (e Execution, background bool, err error) {
	body, release, err := x.read()
	if err != nil {
		return nil, false, err
	}
	defer release()
	background = wantsBackground(body)
	who := x.caller
	who.Streams = wantsStream(x.r)
	return x.g.svc.Start(x.ctx, who, body), background, nil
}

// CallHeader is the answer header with the call's id. A stream needs it because its first
// event, started, may have to wait for the build of an environment.
const CallHeader = "Locus-Call-Id"

// names puts the call's id into the answer and the log.
func (x *exchange) names(e Execution) {
	x.callID = e.ID()
	x.out.header().Set(CallHeader, x.callID)
}

// wait answers when the call has ended. A client cannot resume a plain answer, so the call
// is stopped when its last client leaves.
func (x *exchange) wait(e Execution) error {
	x.g.present.enter(e.ID())
	select {
	case <-e.Done():
		x.g.present.leave(e.ID())
		return x.result(e.Result())
	case <-x.ctx.Done():
		if x.g.present.leave(e.ID()) {
			e.Abandon(0)
		}
		return errGone
	}
}

// follow streams a call's events. When the last client leaves, it has the grace time to
// come back.
func (x *exchange) follow(e Execution, from int64) error {
	x.g.present.enter(e.ID())
	s, ctx, stop := x.startStream()
	err := safely(func() error {
		return e.Follow(ctx, from, func(ev StreamEvent) error { return s.emit(ev.Offset, ev.Name, ev.Data) })
	})
	gone := s.broken() || x.ctx.Err() != nil
	stop()
	last := x.g.present.leave(e.ID())
	switch {
	case s.complete():
		return nil
	case gone:
		if last && !ended(e) {
			e.Abandon(x.g.cfg.Grace)
		}
		return errGone
	case err == nil:
		return fmt.Errorf("the events of call %s ended without a result", e.ID())
	}
	return fmt.Errorf("follow call %s: %w", e.ID(), err)
}

func ended(e Execution) bool {
	select {
	case <-e.Done():
		return true
	default:
		return false
	}
}

// wantsBackground reads the one argument that the gateway itself needs. If the body is
// invalid the Service refuses it, so false is safe.
func wantsBackground(body []byte) bool {
	if !bytes.Contains(body, []byte("background")) && !bytes.Contains(body, []byte(`\u`)) {
		return false
	}
	var arguments struct {
		Background json.RawMessage `json:"background"`
	}
	return json.Unmarshal(body, &arguments) == nil && string(arguments.Background) == "true"
}
