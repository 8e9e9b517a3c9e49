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

// Gateway is the HTTP door. It is an http.Handler, and any number of goroutines
// may use it.
type Gateway struct {
	cfg    Config
	svc    Service
	log    *slog.Logger
	routes []route
	spec   []byte

	metrics  *metrics
	calls    slots
	controls slots
	bodies   budget
	present  attendance
	mcp      *mcp.HTTP
	live     probe
	ready    probe

	// closing ends when the door begins to shut: streams that would never end by
	// themselves end, and the node counts as not ready.
	closing context.Context
	shut    context.CancelFunc
}

// New makes the door of a service. It panics without a Service, and when the
// registry holds metrics of the same names already.
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

// Close ends the streams that have no end of their own and makes /readyz say
// no. Calls and their streams go on. It is idempotent.
func (g *Gateway) Close() {
	g.shut()
	g.mcp.Close()
}

// Serve answers on a listener until ctx ends. Then it takes no more requests,
// waits DrainTimeout for those that run, and cuts the rest off. It closes the
// listener, and returns nil after a shutdown that ctx asked for. It speaks
// HTTP/1.1, and HTTP/2 without TLS to clients that begin with it.
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
		// No ReadTimeout: it would end the contexts of calls that run for longer.
		// The body has its own deadline.
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

// ServeHTTP answers one request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{
		g: g, r: r, ctx: tracing.FromHeader(r.Context(), r.Header), id: newID(), began: time.Now(),
		out: &answer{w: w, ctl: http.NewResponseController(w), timeout: g.cfg.WriteTimeout},
	}
	g.metrics.inFlight.Inc()
	defer x.finish()
	x.settle(x.serve())
}
