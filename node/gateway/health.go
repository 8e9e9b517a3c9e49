package gateway

import (
	"context"
	"errors"
	"net/http"

	"github.com/locusrun/locus/surfaces"
)

// Health answers a successful health check. A failed one is answered with 503 and a
// refusal.
type Health struct {
	OK bool `json:"ok"`
}

var errClosing = &surfaces.Refusal{
	Code: surfaces.CodeNoCapacity, Message: "the node is shutting down", Suggestion: "Use another node.",
}

var errStarting = &surfaces.Refusal{
	Code: surfaces.CodeNoCapacity, RetryAfterS: 1,
	Message: "the node is starting, and waits for its mesh; nothing ran", Suggestion: "Try again in a second, or use another node; if it goes on, the node's log says what it waits for and what to do.",
}

// starting reports whether the service cannot be used yet.
func (g *Gateway) starting() bool {
	if g.cfg.Started == nil {
		return false
	}
	select {
	case <-g.cfg.Started:
		return false
	default:
		return true
	}
}

// early answers a request to a node that is starting: it is alive, and cannot do more yet.
func (x *exchange) early() error {
	if x.route != nil && x.route.pattern == "/healthz" {
		return x.json(Health{OK: true})
	}
	return errStarting
}

func (x *exchange) healthz() error { return x.health(&x.g.live, x.g.svc.Live) }

func (x *exchange) readyz() error {
	if x.g.closing.Err() != nil {
		return errClosing
	}
	return x.health(&x.g.ready, x.g.svc.Ready)
}

func (x *exchange) health(p *probe, f func(context.Context) error) error {
	err := p.check(x.ctx, f)
	if err == nil {
		return x.json(Health{OK: true})
	}
	if x.ctx.Err() != nil {
		return errGone
	}
	// For any error the node is unhealthy. The check needs no token, so of an internal
	// error only the id of its log line is shown.
	var refusal *surfaces.Refusal
	if !errors.As(err, &refusal) {
		x.fault = err
		refusal = &surfaces.Refusal{
			Code:       surfaces.CodeInternal,
			Message:    "the node is not healthy; its log says more under id " + x.id,
			Suggestion: "Report this id to whoever runs the node.",
		}
	}
	unhealthy := *refusal
	unhealthy.HTTP = http.StatusServiceUnavailable
	return &unhealthy
}
