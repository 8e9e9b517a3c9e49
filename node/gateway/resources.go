package gateway

import (
	"context"
	"fmt"
	"net/http"

	"github.com/locusrun/locus/surfaces"
)

// NodeList answers GET /v1/nodes.
type NodeList struct {
	Nodes []NodeInfo `json:"nodes"`
}

// ActorList answers GET /v1/actors.
type ActorList struct {
	Actors []ActorInfo `json:"actors"`
}

// NewActor is the body of POST /v1/actors. An operator may administer the mesh.
// With labels, the actor's code is placed on nodes that have them.
type NewActor struct {
	Name     string            `json:"name"`
	Operator bool              `json:"operator,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
}

func (x *exchange) status() error { return x.json(x.g.svc.Status(x.ctx, x.caller)) }

func (x *exchange) nodes() error {
	return x.json(NodeList{Nodes: notNil(x.g.svc.Nodes(x.ctx))})
}

func (x *exchange) listActors() error {
	list, err := x.g.svc.Actors(x.ctx, x.caller)
	return replies(x, ActorList{Actors: notNil(list)}, err)
}

func (x *exchange) createActor() error {
	return takes(x, `{"name": "NAME"}`, func(actor NewActor) (ActorInfo, error) {
		return x.g.svc.CreateActor(x.ctx, x.caller, actor)
	})
}

// takes answers a request whose body is an object of type B.
func takes[B, A any](x *exchange, example string, do func(B) (A, error)) error {
	raw, release, err := x.read()
	if err != nil {
		return err
	}
	defer release()
	var body B
	if err := surfaces.DecodeObject(raw, &body); err != nil {
		return invalid(http.StatusUnprocessableEntity, fmt.Sprintf("the body is not what is taken here: %v", err), "send "+example)
	}
	answer, err := do(body)
	return replies(x, answer, err)
}

// replies answers with what a Service gave.
func replies[A any](x *exchange, answer A, err error) error {
	if err != nil {
		return err
	}
	return x.json(answer)
}

// endActor takes nothing but the name in the path, so a name that is invalid is
// one of an actor that does not exist.
func (x *exchange) endActor() error {
	ended, err := x.g.svc.EndActor(x.ctx, x.caller, x.params["name"])
	return replies(x, ended, absent(err))
}

// events streams what happens in the mesh until the client leaves or the door closes.
func (x *exchange) events() error {
	after, err := x.after()
	if err != nil {
		return err
	}
	tell, err := x.g.svc.Events(x.caller, after)
	if err != nil {
		return err
	}
	return x.untilClosing(func(ctx context.Context, s *eventStream) error {
		return tell(ctx, func(e MeshEvent) error {
			if e.Kind == "" {
				return s.mark(e.ID)
			}
			return s.object(e.ID, e.Kind, e)
		})
	})
}

// after gives from where a client wants to go on with events. The header of a client that
// reconnects says more than the address that it first used.
func (x *exchange) after() (Cursor, error) {
	name, text := "Last-Event-ID", x.r.Header.Get("Last-Event-ID")
	if text == "" {
		name, text = afterEvent.name, x.r.URL.Query().Get(afterEvent.name)
	}
	if text == "" {
		return nil, nil
	}
	at, err := ParseCursor(text)
	if err != nil {
		return nil, invalid(http.StatusUnprocessableEntity, fmt.Sprintf("%s is not the id of an event: %.100q", name, text),
			fmt.Sprintf("set %s to the id of the last event that was received, or leave it out", name))
	}
	return at, nil
}

// untilClosing streams until the client leaves or the door closes.
func (x *exchange) untilClosing(stream func(ctx context.Context, s *eventStream) error) error {
	s, ctx, stop := x.startStream()
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(x.g.closing, cancel)()
	err := safely(func() error { return stream(ctx, s) })
	switch {
	case s.broken() || x.ctx.Err() != nil:
		return errGone
	case ctx.Err() != nil:
		return nil // the door closes
	}
	return err
}

// safely makes an error of a panic, for work whose answer has begun or that runs
// on a goroutine of its own.
func safely(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = newPanicked(p)
		}
	}()
	return f()
}
