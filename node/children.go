package node

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/locusrun/locus/node/calls"
	"github.com/locusrun/locus/surfaces"
)

// telling is the sink of a call that the code of another one has made. What it prints
// and shows is its own; what it has to tell people is told to those who follow the
// calling one, too.
type telling struct {
	*calls.Record
	up surfaces.Sink
}

// Event takes what the call says beside its output.
func (t telling) Event(e surfaces.Event) {
	t.Record.Event(e)
	switch {
	case e.Kind == surfaces.EventNotify, e.Kind == surfaces.EventNotice && e.Name == surfaces.NoticeEnvironment:
	case e.Kind == surfaces.EventClarification:
		e.ID = t.ID + "/" + e.ID // the answer comes back by this
	default:
		return
	}
	t.up.Event(e)
}

// asking gives the child whose question an answer is for, and the body by which the child
// knows the question; nil when the call itself has asked it, or nobody has.
func (e *execution) asking(s steering) (*execution, json.RawMessage, error) {
	id, own, _ := strings.Cut(s.ID, "/")
	for _, child := range e.Children() {
		if child.ID == id {
			s.ID = own
			body, err := json.Marshal(s)
			return &execution{child, e.node}, body, err
		}
	}
	return nil, nil, nil
}

// reach does to the calls that the code has made what was done to the call itself.
func (e *execution) reach(ctx context.Context, action string, body []byte) {
	switch action {
	case "stop":
		e.node.stopChildren(e.Record)
		return
	case "pause", "resume":
		e.Hold(action == "pause")
	case "interject":
	default:
		return
	}
	var all sync.WaitGroup
	for _, child := range e.Children() {
		all.Go(func() {
			_, err := (&execution{child, e.node}).guide(ctx, action, body)
			if err != nil && action == "pause" {
				e.node.work.Go(func() { e.node.hold(e.Record, child) })
			}
		})
	}
	all.Wait()
}

func (n *Node) stopChildren(r *calls.Record) {
	for _, child := range r.Children() {
		n.stop(child.ID)
	}
}

// Bounds on the pauses between two tries to steer a call that is on its way to its
// place.
const (
	steerPause   = 10 * time.Millisecond
	longestPause = 500 * time.Millisecond
)

// hold pauses a call as soon as its code runs, while the calling one is paused.
func (n *Node) hold(caller, child *calls.Record) {
	e := &execution{child, n}
	n.until(child, func() bool {
		if !caller.Held() {
			return true
		}
		if _, err := e.guide(n.ctx, "pause", nil); err != nil {
			return false
		}
		if !caller.Held() { // it was resumed just now, perhaps before this pause
			_, _ = e.guide(n.ctx, "resume", nil) // it has ended, if not
		}
		return true
	})
}

// end stops a call, which may still be on its way to its place.
func (n *Node) end(child *calls.Record) {
	n.until(child, func() bool { n.stop(child.ID); return false })
}

// until does something again and again until it was done, or the call has ended.
func (n *Node) until(r *calls.Record, do func() bool) {
	for pause := steerPause; !do(); pause = min(2*pause, longestPause) {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-r.Done():
		case <-n.ctx.Done():
		}
		timer.Stop()
		if r.Ended() || n.ctx.Err() != nil {
			return
		}
	}
}
