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

// Config says what a Gateway serves and within which bounds. Only Service is
// required: the zero value of every other field stands for its default.
type Config struct {
	// Service is what the doors lead to.
	Service Service
	// Log gets one line per request; nil drops them.
	Log *slog.Logger
	// Version is shown in the API description and in the metrics.
	Version string
	// Registerer takes the metrics of the doors, and /metrics shows all that is
	// in it. Nil makes a registry with Go's and the process's own metrics.
	Registerer *prometheus.Registry
	// Hosts are more names under which this server may be reached over loopback,
	// for instance behind a proxy on the same machine. Without port.
	Hosts []string

	// MaxBody bounds one request's body, and MaxBodies all that are held at the
	// same time, in bytes.
	MaxBody, MaxBodies int64
	// MaxCalls bounds the requests that run or follow a call or follow the node's
	// events; MaxControls all others, so that a node full of calls can be steered.
	MaxCalls, MaxControls int
	// MaxHeader bounds a request's header, in bytes.
	MaxHeader int

	// HeaderTimeout and BodyTimeout bound how long a request may take to arrive.
	HeaderTimeout, BodyTimeout time.Duration
	// WriteTimeout bounds how long a reader may take to accept one piece (at most
	// 256 KiB) of an answer.
	WriteTimeout time.Duration
	// IdleTimeout is how long a connection is kept without a request.
	IdleTimeout time.Duration
	// Heartbeat is the time between two comments on a stream.
	Heartbeat time.Duration
	// Grace is how long a call whose last follower left waits for one to return.
	Grace time.Duration
	// DrainTimeout is how long Serve waits for running requests when its context
	// has ended.
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
