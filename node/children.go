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

// childSink is the sink of a call that was made by the code of another call. Its output stays
// its own. Notifications and questions also go to the sink of the calling one.
type childSink struct {
	*calls.Record
	parent surfaces.Sink
}

// Event passes on the events that the caller of the outer call has to see.
func (t childSink) Event(e surfaces.Event) {
	t.Record.Event(e)
	switch {
	case e.Kind == surfaces.EventNotify, e.Kind == surfaces.EventNotice && e.Name == surfaces.NoticeEnvironment:
	case e.Kind == surfaces.EventClarification:
		e.ID = t.ID + "/" + e.ID // the answer is routed by this id
	default:
		return
	}
	t.parent.Event(e)
}

// childAsking returns the child call whose question an answer is for, with the body under the
// child's own question id; nil if it is no child's question.
func (e *execution) childAsking(s steering) (*execution, json.RawMessage, error) {
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

// propagate applies a steering action on the call to the calls that its code has made.
func (e *execution) propagate(ctx context.Context, action string, body []byte) {
	switch action {
	case "stop":
		e.node.stopChildren(e.Record)
		return
	case "pause", "resume":
		e.SetPaused(action == "pause")
	case "interject":
	default:
		return
	}
	var all sync.WaitGroup
	for _, child := range e.Children() {
		all.Go(func() {
			_, err := (&execution{child, e.node}).steerTree(ctx, action, body)
			if err != nil && action == "pause" {
				e.node.work.Go(func() { e.node.pauseChild(e.Record, child) })
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

// Bounds of the back-off while a call that is being placed cannot be steered yet.
const (
	minSteerDelay = 10 * time.Millisecond
	maxSteerDelay = 500 * time.Millisecond
)

// pauseChild pauses a child call as soon as it can be steered, if its parent is still paused
// then.
func (n *Node) pauseChild(caller, child *calls.Record) {
	e := &execution{child, n}
	n.retryUntil(child, func() bool {
		if !caller.Paused() {
			return true
		}
		if _, err := e.steerTree(n.ctx, "pause", nil); err != nil {
			return false
		}
		if !caller.Paused() { // resumed meanwhile, possibly before this pause
			_, _ = e.steerTree(n.ctx, "resume", nil) // an error means that the child has ended
		}
		return true
	})
}

// stopUntilEnded stops a call, even if it is still being placed.
func (n *Node) stopUntilEnded(r *calls.Record) {
	n.retryUntil(r, func() bool { n.stop(r.ID); return false })
}

// retryUntil repeats do with back-off until it returns true or the call has ended.
func (n *Node) retryUntil(r *calls.Record, do func() bool) {
	for pause := minSteerDelay; !do(); pause = min(2*pause, maxSteerDelay) {
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
