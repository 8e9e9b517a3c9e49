package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/locusrun/locus/node/gateway/mcp"
	"github.com/locusrun/locus/surfaces/tracing"
)

// Gateway serves the HTTP API. It is an http.Handler and safe for concurrent use.
type Gateway struct {
	cfg    Config
	svc    Service
	log    *slog.Logger
	routes []route
	spec   []byte // openapi.json

	metrics  *metrics
	calls    slots      // bounds the requests that run code or wait for it
	controls slots      // bounds all other requests, so that running calls can always be steered
	bodies   budget     // bounds the memory of request bodies
	present  attendance // who follows which call
	mcp      *mcp.HTTP
	live     probe
	ready    probe

	// closing ends when the gateway begins to shut down: endless streams end, and the node
	// is no longer ready.
	closing context.Context
	shut    context.CancelFunc
}

// New makes the gateway of a service. It panics without a Service, and if the registry
// already has metrics of the same names.
func New(cfg Config) *Gateway {
	if cfg.Service == nil {
		panic("gateway: Config.Service is nil")
	}
	cfg = cfg.withDefaults()
	g := &Gateway{
		cfg: cfg, svc: cfg.Service, log: cfg.Log,
		calls:    newSlots(cfg.MaxCalls),
		controls: newSlots(cfg.MaxControls),
		bodies:   budget{limit: cfg.MaxBodies},
	}
	g.closing, g.shut = context.WithCancel(context.Background())
	g.routes = g.table()
	g.spec = describe(g.routes, cfg.Version)
	g.metrics = newMetrics(cfg)
	g.mcp = mcp.NewHTTP(mcp.Config{Outputs: ToolOutputs(), Version: cfg.Version, Log: cfg.Log}, mcp.Bounds{})
	return g
}

// Close ends the endless streams and makes /readyz fail. Calls and their streams go on. It
// is idempotent.
func (g *Gateway) Close() {
	g.shut()
	g.mcp.Close()
}

// Serve serves a listener until ctx ends. Then it accepts no more requests, waits up to
// DrainTimeout for the running ones, and closes the rest. It closes the listener, and
// returns nil after such a shutdown. It speaks HTTP/1.1, and HTTP/2 without TLS with prior
// knowledge.
func (g *Gateway) Serve(ctx context.Context, ln net.Listener) error {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	srv := &http.Server{
		Handler:           g,
		Protocols:         &protocols,
		ReadHeaderTimeout: g.cfg.HeaderTimeout,
		IdleTimeout:       g.cfg.IdleTimeout,
		MaxHeaderBytes:    g.cfg.MaxHeader,
		ErrorLog:          slog.NewLogLogger(g.log.Handler(), slog.LevelWarn),
		// No ReadTimeout: it would end the contexts of longer calls. The body has its own
		// deadline.
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ln) }()
	select {
	case err := <-ended:
		g.Close()
		return err
	case <-ctx.Done():
	}
	g.Close()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.cfg.DrainTimeout)
	defer cancel()
	err := srv.Shutdown(drain)
	if errors.Is(err, context.DeadlineExceeded) {
		g.log.Warn("requests were still running at the end of the drain", "drain_s", g.cfg.DrainTimeout.Seconds())
		err = srv.Close()
	}
	<-ended
	return err
}

// ServeHTTP serves one request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{
		g: g, r: r, ctx: tracing.FromHeader(r.Context(), r.Header), id: newID(), began: time.Now(),
		out: &answer{w: w, ctl: http.NewResponseController(w), timeout: g.cfg.WriteTimeout},
	}
	g.metrics.inFlight.Inc()
	defer x.finish()
	x.settle(x.serve())
}
