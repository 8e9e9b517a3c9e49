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

// NewActor is the body of POST /v1/actors. An operator may administer the mesh. With
// labels, the actor's code runs only on nodes that have them.
type NewActor struct {
	Name     string `json:"name"`
	Operator bool   `json:"operator,omitempty"`
	// Labels must be on a node for the actor's code to run there.
	Labels map[string]string `json:"labels,omitempty"`
}

func (x *exchange) status() error { return x.json(x.g.svc.Status(x.ctx, x.caller)) }

func (x *exchange) nodes() error {
	return x.json(NodeList{Nodes: notNil(x.g.svc.Nodes(x.ctx))})
}

func (x *exchange) listActors() error {
	list, err := x.g.svc.Actors(x.ctx, x.caller)
	return reply(x, ActorList{Actors: notNil(list)}, err)
}

func (x *exchange) createActor() error {
	return handleBody(x, `{"name": "NAME"}`, func(actor NewActor) (ActorInfo, error) {
		return x.g.svc.CreateActor(x.ctx, x.caller, actor)
	})
}

// handleBody handles a request with a JSON body of type B.
func handleBody[B, A any](x *exchange, example string, do func(B) (A, error)) error {
	raw, release, err := x.read()
	if err != nil {
		return err
	}
	defer release()
	var body B
	if err := surfaces.DecodeObject(raw, &body); err != nil {
		return invalid(http.StatusUnprocessableEntity, fmt.Sprintf("the body is not what is taken here: %v", err), "Send "+example+".")
	}
	answer, err := do(body)
	return reply(x, answer, err)
}

// reply answers with the result of a Service method.
func reply[A any](x *exchange, answer A, err error) error {
	if err != nil {
		return err
	}
	return x.json(answer)
}

// endActor has no argument but the name in the path, so an invalid name is a 404.
func (x *exchange) endActor() error {
	ended, err := x.g.svc.EndActor(x.ctx, x.caller, x.params["name"])
	return reply(x, ended, absent(err))
}

// events streams the mesh's events until the client leaves or the gateway closes.
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

// after returns the position after which a client wants events. Last-Event-ID overrides the
// query, as a reconnecting client repeats its first URL.
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
			fmt.Sprintf("Set %s to the id of the last event that was received, or leave it out.", name))
	}
	return at, nil
}

// untilClosing streams until the client leaves or the gateway closes.
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
		return nil // the gateway closes
	}
	return err
}

// safely converts a panic to an error, for work after the answer has begun or on another
// goroutine.
func safely(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = newPanicked(p)
		}
	}()
	return f()
}
