package gateway

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/locusrun/locus/surfaces"
	"github.com/locusrun/locus/surfaces/tracing"
)

// exchange is one request and its answer.
type exchange struct {
	g     *Gateway
	r     *http.Request
	ctx   context.Context
	out   *answer
	id    string // the request's, also in the log and in internal errors
	began time.Time

	route  *route            // nil when none fits
	params map[string]string // the named segments of the path
	caller Caller
	callID string       // of the call that the request is about; empty for none
	stream *eventStream // set once the answer is a stream
	gone   bool         // the client disconnected before it had its answer
	fault  error        // an internal error, for the log
}

// errGone says that the client has disconnected and cannot be answered.
var errGone = errors.New("the client is gone")

func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// serve makes the checks in order and calls the handler.
func (x *exchange) serve() error {
	x.out.header().Set("X-Request-Id", x.id)
	x.expectBody()
	if err := x.guard(); err != nil {
		return err
	}
	route, params, allow, miss := x.g.match(x.r.Method, x.r.URL.EscapedPath())
	x.route, x.params = route, params
	if x.g.starting() {
		return x.early()
	}
	if !x.open() {
		if err := x.authenticate(); err != nil {
			return err
		}
	}
	if miss != nil {
		if allow != "" {
			x.out.header().Set("Allow", allow)
		}
		return miss
	}
	release, err := x.slot()
	if err != nil {
		return err
	}
	defer release()
	return route.handle(x)
}

// open reports whether the request needs no token.
func (x *exchange) open() bool {
	switch {
	case x.route == nil:
		return !isAPI(x.r.URL.Path)
	case x.route.access == accessLoopback:
		return x.fromThisMachine()
	}
	return x.route.access == accessOpen
}

// slot takes a slot of the route's pool.
func (x *exchange) slot() (release func(), err error) {
	pool := x.g.controls
	switch x.route.pool {
	case poolFree, poolOwn:
		return func() {}, nil
	case poolCalls:
		pool = x.g.calls
	}
	return x.takeSlot(pool)
}

func (x *exchange) takeSlot(pool slots) (release func(), err error) {
	if !pool.take() {
		return nil, x.noRoom(cap(pool))
	}
	return pool.free, nil
}

func (x *exchange) noRoom(limit int) error {
	return &surfaces.Refusal{
		Code:        surfaces.CodeNoCapacity,
		Message:     fmt.Sprintf("%d requests of this kind are running, which is the limit", limit),
		Suggestion:  "Send the same request again in a second.",
		RetryAfterS: 1,
	}
}

// settle answers with the error of serve, unless an answer was sent.
func (x *exchange) settle(err error) {
	var refusal *surfaces.Refusal
	switch {
	case err == nil:
	case errors.Is(err, errGone):
		x.gone = true
	case errors.As(err, &refusal) || x.ctx.Err() == nil:
		x.fail(err)
	default:
		x.gone = true // it failed because the request ended
	}
}

// fail answers with an error: the last event of a stream, or else the JSON answer.
func (x *exchange) fail(err error) {
	result := x.resultOf(err)
	if x.stream != nil {
		if err := x.stream.result(result); err != nil {
			x.gone = true
		}
		return
	}
	x.drain()
	if err := x.result(result); err != nil {
		x.gone = true
	}
}

// finish converts a panic to an internal error, logs the request and counts it.
func (x *exchange) finish() {
	defer x.account()
	p := recover()
	if p == nil {
		if x.gone && !x.out.begun() {
			panic(http.ErrAbortHandler) // otherwise the server would send an empty 200
		}
		return
	}
	if p == http.ErrAbortHandler {
		x.gone = true
		panic(p)
	}
	err := newPanicked(p)
	if x.out.begun() && x.stream == nil {
		x.fault = err
		panic(http.ErrAbortHandler) // a partial answer must not look complete
	}
	x.fail(err)
}

func (x *exchange) account() {
	took := time.Since(x.began)
	x.g.metrics.request(x.door(), x.routeName(), x.statusLabel(), took)
	level := slog.LevelInfo
	switch {
	case x.fault != nil:
		level = slog.LevelError
	case x.route != nil && x.route.pool == poolFree:
		level = slog.LevelDebug
	}
	if !x.g.log.Enabled(x.ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request_id", x.id), slog.String("method", clip(x.r.Method, 16)), slog.String("path", clip(x.r.URL.Path, 200)),
		slog.String("status", x.statusLabel()), slog.Float64("ms", surfaces.Milliseconds(took)),
		slog.Int64("bytes", x.out.written), slog.String("remote", x.r.RemoteAddr),
		slog.String("actor", x.caller.Actor), slog.String("call_id", x.callID),
	}
	if id := tracing.ID(x.ctx); id != "" {
		attrs = append(attrs, slog.String("trace_id", id))
	}
	if x.fault != nil {
		attrs = append(attrs, slog.String("error", x.fault.Error()))
	}
	x.g.log.LogAttrs(x.ctx, level, "request", attrs...)
}

func (x *exchange) routeName() string {
	if x.route == nil {
		return "none"
	}
	return x.route.name()
}

// door is the metrics label for the protocol of the request.
func (x *exchange) door() string {
	if x.route != nil && x.route.pattern == mcpPath {
		return doorMCP
	}
	return doorHTTP
}

// statusLabel is the answer's status, or gone if the client disconnected.
func (x *exchange) statusLabel() string {
	if x.gone {
		return "gone"
	}
	return fmt.Sprint(x.out.status)
}

// clip bounds untrusted text in messages and in the log.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "…"
}
