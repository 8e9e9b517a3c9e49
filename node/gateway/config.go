package gateway

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/locusrun/locus/surfaces"
)

// Defaults of Config.
const (
	DefaultMaxBody       = surfaces.MaxBody
	DefaultMaxBodies     = 512 << 20
	DefaultMaxCalls      = 2048
	DefaultMaxControls   = 256
	DefaultMaxHeader     = 32 << 10
	DefaultHeaderTimeout = 10 * time.Second
	DefaultBodyTimeout   = 2 * time.Minute
	DefaultWriteTimeout  = 30 * time.Second
	DefaultIdleTimeout   = 2 * time.Minute
	DefaultHeartbeat     = 15 * time.Second
	DefaultGrace         = 10 * time.Second
	DefaultDrainTimeout  = 10 * time.Second
)

// Config says what a Gateway serves and within which bounds. Only Service is required; zero
// fields take their defaults.
type Config struct {
	// Service does the work behind the API.
	Service Service
	// Started is closed when the service can be used. Until then every request is refused at
	// once, except for /healthz. If nil, the service can be used from the start.
	Started <-chan struct{}
	// Log gets one line per request; nil discards them.
	Log *slog.Logger
	// Version is shown in the API description and the metrics.
	Version string
	// Registerer gets the gateway's metrics; /metrics shows everything in it. If nil, a new
	// registry with the Go and process metrics is used.
	Registerer *prometheus.Registry
	// Hosts are additional host names, without port, under which this server may be reached
	// over loopback, for example behind a proxy on the same machine.
	Hosts []string

	// MaxBody bounds one request's body, MaxBodies all bodies in memory, in bytes.
	MaxBody, MaxBodies int64
	// MaxCalls bounds the requests that run or follow a call or follow events. MaxControls
	// bounds all others, so that a node full of calls can still be steered.
	MaxCalls, MaxControls int
	// MaxHeader bounds a request's header, in bytes.
	MaxHeader int

	// HeaderTimeout and BodyTimeout bound the arrival of a request.
	HeaderTimeout, BodyTimeout time.Duration
	// WriteTimeout bounds the time in which a client must accept one piece of an answer, at
	// most 256 KiB.
	WriteTimeout time.Duration
	// IdleTimeout is how long an idle connection is kept open.
	IdleTimeout time.Duration
	// Heartbeat is the interval of comments on a stream.
	Heartbeat time.Duration
	// Grace is how long a call goes on without followers after the last one has left.
	Grace time.Duration
	// DrainTimeout is how long Serve waits for running requests after its context has
	// ended.
	DrainTimeout time.Duration
}

func (c Config) withDefaults() Config {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Version = cmp.Or(c.Version, "unknown")
	c.MaxBody = cmp.Or(c.MaxBody, DefaultMaxBody)
	c.MaxBodies = cmp.Or(c.MaxBodies, DefaultMaxBodies)
	c.MaxCalls = cmp.Or(c.MaxCalls, DefaultMaxCalls)
	c.MaxControls = cmp.Or(c.MaxControls, DefaultMaxControls)
	c.MaxHeader = cmp.Or(c.MaxHeader, DefaultMaxHeader)
	c.HeaderTimeout = cmp.Or(c.HeaderTimeout, DefaultHeaderTimeout)
	c.BodyTimeout = cmp.Or(c.BodyTimeout, DefaultBodyTimeout)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, DefaultWriteTimeout)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, DefaultIdleTimeout)
	c.Heartbeat = cmp.Or(c.Heartbeat, DefaultHeartbeat)
	c.Grace = cmp.Or(c.Grace, DefaultGrace)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, DefaultDrainTimeout)
	return c
}
