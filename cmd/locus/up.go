//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel"

	"github.com/locusrun/locus/cmd/locus/settings"
	"github.com/locusrun/locus/node"
	"github.com/locusrun/locus/node/gateway/client"
	"github.com/locusrun/locus/node/member"
)

func (a *app) upCommand() *cobra.Command {
	var given settings.Settings
	var labels, file string
	var fast, sources bool
	cmd := &cobra.Command{
		Use: "up [flags]", Short: "Run a node: a one-node mesh, or a member of an existing mesh",
		Long: `Run a node. Without flags it is a complete one-node mesh: its own registry, its own
certificate authority, and an actor named default whose token the other commands on this
machine find without configuration.

With --join and --token it joins the mesh of the node at ADDR. Both are needed only the
first time; afterwards the data directory belongs to a member, which finds its mesh
itself. A node of the mesh issues the token:
  locus token create --role node
Nodes reach each other by UDP at the address of --listen, so it must be reachable from the
other machines. --fast and --voters apply to the mesh and must be the same on all nodes.

When the node is ready to serve, it prints one line on standard output:
  ready http=HOST:PORT listen=HOST:PORT node=ID
With port 0 the system picks a port. Logs go to standard error. SIGTERM and Ctrl-C drain
the node, which then exits with status 0.

A configuration file is YAML with the flags' names: data, http, listen,
advertise, join, token, labels (a map), voters, fast, max_sessions,
session_idle, memory_low, log_level, log_format, uv, env_sources, env_build_limit,
env_max_age, env_max_gib, audit_max_mib, audit_max_age, trace_endpoint.
Flags win over the environment, the environment over the file, the file over the
defaults.`,
		Example: `  locus up
  locus up --data /var/lib/locus --http 127.0.0.1:8080
  locus up --listen 10.0.0.5:7071
  locus up --listen 10.0.0.6:7071 --join 10.0.0.5:7071 --token TOKEN
  locus up --http 127.0.0.1:0 --log-format json
  locus up --config locus.yaml --labels zone=a,disk=fast`,
		Args: exactly(0, "only flags"),
	}
	s := cmd.Flags()
	s.StringVar(&given.HTTP, "http", "", "TCP `ADDR` of the HTTP API (default "+settings.DefaultHTTP+")")
	s.StringVar(&given.Listen, "listen", "", "UDP `ADDR` for the mesh, which other machines give to --join (default "+settings.DefaultListen+")")
	s.StringVar(&given.Advertise, "advertise", "", "`ADDR` at which other nodes reach this one, a host or HOST:PORT (default: the address of --listen)")
	s.StringVar(&given.Join, "join", "", "mesh `ADDR` of any node of the mesh to join; with --token")
	s.StringVar(&given.Token, "token", "", "`TOKEN` to join with")
	s.StringVar(&labels, "labels", "", "labels of the node, `k=v,...`")
	s.IntVar(&given.Voters, "voters", 0, "at most `N` nodes of the mesh vote: 1, 3 or 5 (default 5)")
	s.BoolVar(&fast, "fast", false, "detect a silent node within 2 s instead of 7 s; for a single quiet network")
	s.IntVar(&given.MaxSessions, "max-sessions", 0, "accept at most `N` sessions on this node (default 4096)")
	s.DurationVar(&given.SessionIdle, "session-idle", 0, "close sessions that have been idle for this long, unless a call set keep (default: never)")
	s.IntVar(&given.MemoryLow, "memory-low", 0, "free dispensable memory when less than `MIB` is available (default 512, or a tenth of the memory if that is less)")
	s.StringVar(&given.Uv, "uv", "", "`PATH` of uv, which builds environments (default: the uv on PATH, else it is downloaded)")
	s.BoolVar(&sources, "env-sources", false, "allow packages that must be built from source, which runs their build code on this node, outside the sandbox")
	s.DurationVar(&given.EnvBuildLimit, "env-build-limit", 0, "time limit for one build of an environment (default 10m)")
	s.DurationVar(&given.EnvMaxAge, "env-max-age", 0, "how long an unused environment is kept (default 720h)")
	s.IntVar(&given.EnvMaxGiB, "env-max-gib", 0, "disk space for environments and their cache, in `GIB` (default 20)")
	s.IntVar(&given.AuditMaxMiB, "audit-max-mib", 0, "disk space for the audit log, in `MIB`; the oldest entries are removed first (default 1024)")
	s.DurationVar(&given.AuditMaxAge, "audit-max-age", 0, "how long audit log entries are kept (default 2160h)")
	s.StringVar(&given.TraceEndpoint, "trace-endpoint", "", "send traces of calls to the OpenTelemetry collector at `URL`, by OTLP over HTTP (default: OTEL_EXPORTER_OTLP_ENDPOINT, else none)")
	s.StringVar(&file, "config", "", "YAML `FILE` with settings")
	s.StringVar(&given.LogLevel, "log-level", "", "debug, info, warn or error (default info)")
	s.StringVar(&given.LogFormat, "log-format", "", "text or json (default text)")
	a.completeFlag(cmd, "log-level", []string{"debug", "info", "warn", "error"})
	a.completeFlag(cmd, "log-format", []string{"text", "json"})
	a.completeFlag(cmd, "voters", []string{"1", "3", "5"})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		given.Fast = when(s.Changed("fast"), &fast)
		given.EnvSources = when(s.Changed("env-sources"), &sources)
		all, err := a.settings(given, labels, file)
		if err != nil {
			return asUsage(err)
		}
		return a.up(cmd.Context(), all)
	}
	return cmd
}

// settings merges flags, environment, file and defaults, in this order of precedence.
func (a *app) settings(given settings.Settings, labels, file string) (settings.Settings, error) {
	var err error
	if given.Labels, err = settings.Labels(labels); err != nil {
		return given, err
	}
	given.Data = a.hints.Data
	if given.Data == "" {
		given.Data = a.getenv("LOCUS_DATA")
	}
	if file != "" {
		below, err := settings.Load(file)
		if err != nil {
			return given, err
		}
		given = given.Over(below)
	}
	given = given.Over(settings.Defaults())
	if given.Data, err = client.DataDir(given.Data, a.getenv); err != nil {
		return given, err
	}
	return given, given.Check()
}

func (a *app) up(ctx context.Context, s settings.Settings) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	release, err := settings.Lock(s.Data)
	var held *settings.LockedError
	if errors.As(err, &held) {
		return misuse("use that one, or give another directory with --data", "%s", held.Error())
	}
	if err != nil {
		return asUsage(err)
	}
	cfg := node.Config{
		DataDir: s.Data, HTTPAddr: s.HTTP, ListenAddr: s.Listen, Advertise: s.Advertise, Labels: s.Labels, Join: s.Join, Token: s.Token,
		Voters: s.Voters, MaxSessions: s.MaxSessions, SessionIdle: s.SessionIdle, MemoryLow: int64(s.MemoryLow) << 20, Version: version(), Log: s.Logger(a.err), Ready: a.ready,
		TraceEndpoint: s.TraceEndpoint,
		Audit:         node.AuditConfig{MaxBytes: int64(s.AuditMaxMiB) << 20, MaxAge: s.AuditMaxAge},
		Environments: node.EnvironmentsConfig{
			Uv: s.Uv, Sources: s.EnvSources != nil && *s.EnvSources, BuildLimit: s.EnvBuildLimit, MaxAge: s.EnvMaxAge, MaxBytes: int64(s.EnvMaxGiB) << 30,
		},
	}
	if s.Fast != nil && *s.Fast {
		cfg = cfg.Fast()
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { cfg.Log.Warn("traces", "error", err) }))
	if err = mayJoin(cfg); err == nil {
		err = node.Run(ctx, cfg)
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = nil
	}
	return errors.Join(explainUp(cfg, err), release())
}

// mayJoin checks a request to join before anything is started. For an existing member
// --join only adds an address to try; a note says that its token is not used.
func mayJoin(cfg node.Config) error {
	if cfg.Join == "" {
		return nil
	}
	joined, err := cfg.Joined()
	if err != nil {
		return asUsage(err)
	}
	switch {
	case joined && cfg.Token != "":
		cfg.Log.Warn("this data directory belongs to a member of a mesh already: --token is not used, and --join only tells where another node is; to join another mesh give an empty one with --data", "data", cfg.DataDir)
		return nil
	case joined:
		return nil
	case cfg.Token == "":
		return asUsage(settings.ErrIncompleteJoin)
	}
	return cfg.CheckToken()
}

// explainUp adds to an error of a node's start what the user can do about it.
func explainUp(cfg node.Config, err error) error {
	var unknown *net.DNSError
	var serving *net.OpError
	switch problem := cfg.JoinProblem(err); {
	case problem != nil:
		return problem
	case errors.Is(err, node.ErrLeftBehind):
		return &usageError{Message: err.Error(), Suggestion: "start the release of locus that the other nodes run; the data directory is as it was", Err: err}
	case errors.Is(err, member.ErrNotAccepted):
		return asUsage(err)
	case errors.Is(err, member.ErrLostRegistry):
		return &usageError{Message: err.Error(), Suggestion: "docs/operating.md describes how to recover a mesh", Err: err}
	case errors.As(err, &unknown), errors.Is(err, syscall.EADDRNOTAVAIL):
		return &usageError{Message: err.Error(), Suggestion: "give an address of this machine with --http or --listen", Err: err}
	case errors.Is(err, syscall.EACCES) && errors.As(err, &serving):
		return &usageError{Message: err.Error(), Suggestion: "give a port that this user may use with --http or --listen", Err: err}
	case errors.Is(err, syscall.EADDRINUSE):
		return &usageError{Message: err.Error(), Suggestion: "another program uses the address: stop it, or give another with --http or --listen", Err: err}
	}
	return err
}

// ready prints where the node serves. Write errors are ignored: the node goes on without
// standard output.
func (a *app) ready(http, listen, id string) {
	if a.json {
		_ = a.printJSON(map[string]string{"http": http, "listen": listen, "node": id})
		return
	}
	fmt.Fprintf(a.out, "ready http=%s listen=%s node=%s\n", http, listen, id)
}
