package main

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"time"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/gateway/client"
	"github.com/locusrun/locus/surfaces"
)

// stopWithin bounds the request to stop a call.
const stopWithin = 10 * time.Second

// steered runs a call and handles Ctrl-C: the first stops the call, whose result is then
// returned; the second leaves it with errLeft. The call's id is given or comes with its
// first event.
func (a *app) steered(ctx context.Context, c *client.Client, callID string, call func(context.Context, emitter) (surfaces.Result, error), p *printer) (surfaces.Result, error) {
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	pressed, release := a.interrupts()
	defer release()

	named := make(chan string, 1)
	if callID != "" {
		named <- callID
	}
	done := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		stop := func(id string) {
			within, cancel := context.WithTimeout(ctx, stopWithin)
			defer cancel()
			if _, err := c.Stop(within, id); err != nil && ctx.Err() == nil {
				p.note("the call could not be stopped: %v", err)
			}
		}
		watchInterrupts(p, pressed, named, done, func(id string) { watcher.Go(func() { stop(id) }) }, func() { leave(errLeft) })
	})
	if p.asked != nil {
		watcher.Go(func() { p.asked.run(ctx) })
	}
	result, err := call(ctx, func(ev gateway.StreamEvent) error {
		if ev.Name == client.EventStarted && callID == "" {
			var started struct {
				CallID string `json:"call_id"`
			}
			if err := json.Unmarshal(ev.Data, &started); err == nil {
				callID = started.CallID
				p.callID = callID
				named <- callID
			}
		}
		return p.emit(ev)
	})
	close(done)
	leave(nil)
	watcher.Wait()
	return result, err
}

// watchInterrupts waits for Ctrl-C until done is closed. The first stops the call, as soon as
// its id is known from named; the second leaves it.
func watchInterrupts(p *printer, pressed <-chan os.Signal, named <-chan string, done <-chan struct{}, stop func(id string), leave func()) {
	id, presses := "", 0
	for {
		select {
		case <-done:
			return
		case id = <-named:
			if presses > 0 {
				stop(id)
			}
		case <-pressed:
			presses++
			switch {
			case presses > 1:
				leave()
			case id != "":
				p.note("stopping the call; Ctrl-C again detaches from it")
				stop(id)
			default:
				p.note("stopping the call once it has started; Ctrl-C again detaches from it")
			}
		}
	}
}
