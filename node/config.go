package node

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/registry"
)

// Config configures a Node. DataDir is required.
type Config struct {
	// DataDir holds everything that the node stores. It is created if missing. The caller
	// of Run must make sure that only one node uses it at a time.
	DataDir string
	// HTTPAddr is the TCP address of the HTTP API, ListenAddr the UDP address of the mesh.
	// With port 0 the system picks one.
	HTTPAddr   string
	ListenAddr string
	// Advertise is the address, with or without a port, at which other nodes reach
	// ListenAddr. If empty it is ListenAddr, or this machine's address if that is a
	// wildcard.
	Advertise string
	Labels    map[string]string
	// Join is the address of a node of the mesh to join, Token a join token. Both are
	// ignored if this node is a member of a mesh already.
	Join, Token string
	// Lease configures how soon a lost node is noticed; the founder's configuration holds
	// for the whole mesh. Heartbeat is the registry's election timeout. Voters bounds the
	// number of voters. Zero values take the registry's defaults.
	Lease     registry.LeaseConfig
	Heartbeat time.Duration
	Voters    int
	// MaxSessions bounds the sessions of this node; 0 is DefaultMaxSessions.
	MaxSessions int
	// SessionIdle is how long a session may be idle before it is closed; 0 never closes
	// any.
	SessionIdle time.Duration
	// MemoryLow is the available memory, in bytes, below which the node frees what it can;
	// below half of it the node takes no new sessions. 0 is a tenth of the memory, at most
	// 512 MiB. Memory reads the memory; nil reads that of the machine.
	MemoryLow int64
	Memory    func() (sandbox.Memory, error)
	// Drain is how long running calls may go on at shutdown before they are stopped; 0 is
	// DefaultDrain.
	Drain   time.Duration
	Version string
	Log     *slog.Logger
	// Ready is called once, when the node serves.
	Ready func(http, listen, nodeID string)
	// Interpreter is the Python that runs code; if empty it is python3 from PATH.
	Interpreter  string
	Environments EnvironmentsConfig
	Audit        AuditConfig
	// TraceEndpoint is the URL of the OTLP collector for traces. It overrides
	// OTEL_EXPORTER_OTLP_ENDPOINT; with neither set, nothing is traced.
	TraceEndpoint string
	// Limits bounds each kernel: a session, a stateless call or a copy. Zero fields are
	// taken from DefaultLimits.
	Limits sandbox.Limits
}

// DefaultLimits returns the limits of one kernel on this machine: three quarters of its
// memory, and 4096 processes.
func DefaultLimits() sandbox.Limits {
	return sandbox.Limits{Memory: machineMemory() / 4 * 3, Processes: 4096}
}

func (c Config) withDefaults() (Config, error) {
	if c.DataDir == "" {
		return c, errors.New("node: Config.DataDir is empty")
	}
	if runtime.GOOS != "linux" {
		return c, fmt.Errorf("a node runs on Linux only, not on %s", runtime.GOOS)
	}
	abs, err := filepath.Abs(c.DataDir)
	if err != nil {
		return c, fmt.Errorf("node: data directory: %w", err)
	}
	c.DataDir = abs
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.MaxSessions = cmp.Or(c.MaxSessions, DefaultMaxSessions)
	c.Drain = cmp.Or(c.Drain, DefaultDrain)
	if c.Memory == nil {
		c.Memory = new(sandbox.MemoryReader).Read
	}
	c.Environments.MaxAge = cmp.Or(c.Environments.MaxAge, defaultEnvironmentAge)
	c.Environments.MaxBytes = cmp.Or(c.Environments.MaxBytes, defaultEnvironmentBytes)
	defaults := DefaultLimits()
	if c.Limits.Memory == 0 {
		c.Limits.Memory = defaults.Memory
	}
	if c.Limits.Processes == 0 {
		c.Limits.Processes = defaults.Processes
	}
	return c, nil
}

const (
	// DefaultMaxSessions is the default of Config.MaxSessions.
	DefaultMaxSessions = 4096
	// DefaultDrain is the default of Config.Drain.
	DefaultDrain = 10 * time.Second
)

// capacity is the capacity that the node registers.
func (c Config) capacity() registry.Capacity {
	return registry.Capacity{MaxSessions: c.MaxSessions, CPUs: float64(runtime.NumCPU()), MemoryBytes: machineMemory()}
}

func (c Config) registryConfig() registry.Config {
	return registry.Config{
		Dir: c.path("registry"), Log: c.Log, Lease: c.Lease, Heartbeat: c.Heartbeat, MaxVoters: c.Voters,
	}
}

// environmentsDir is the directory of the environments in the data directory.
const environmentsDir = "environments"

// readableDirs lists the parts of the data directory that code may read: the environments and the
// Pythons installed for them.
func (c Config) readableDirs() []string {
	return []string{c.path(environmentsDir, "envs"), c.path(environmentsDir, "python")}
}

func (c Config) path(parts ...string) string {
	return filepath.Join(append([]string{c.DataDir}, parts...)...)
}

// directories creates the directories in the data directory.
func (c Config) directories() error {
	for _, dir := range []string{c.DataDir, c.path("workspaces"), c.path("scratch"), c.path("cache"), c.path(environmentsDir)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("node: data directory: %w", err)
		}
	}
	return nil
}
