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

// Config says what a node shall be. DataDir is required.
type Config struct {
	// DataDir holds everything that the node keeps. It is made if it is not there.
	// Only one node may use it at a time; whoever calls Run sees to that.
	DataDir string
	// HTTPAddr is the TCP address of the HTTP door, ListenAddr the UDP address of
	// the mesh. Port 0 lets the system pick.
	HTTPAddr   string
	ListenAddr string
	// Advertise is where other nodes reach ListenAddr: an address or "host:port".
	// Empty takes ListenAddr itself, or this machine's address where that is a
	// wildcard.
	Advertise string
	Labels    map[string]string
	// Join and Token ask to join the mesh of the node at that address, unless this
	// one is a member of a mesh already.
	Join, Token string
	// Lease says how soon a node that is gone is noticed; that of the node which founds
	// a mesh holds for all of it. Heartbeat is the election timeout of the registry. Voters is
	// how many nodes vote at most. Zero values mean the registry's defaults.
	Lease     registry.LeaseConfig
	Heartbeat time.Duration
	Voters    int
	// MaxSessions is how many sessions this node takes; 0 means
	// DefaultMaxSessions.
	MaxSessions int
	// SessionIdle is for how long a session may be idle before it is closed; 0 keeps all
	// of them.
	SessionIdle time.Duration
	// MemoryLow is how many bytes of memory must be available, or the node frees what
	// it can do without; with half of that left it takes no new sessions. 0 means a tenth
	// of the memory, or 512 MiB if that is less. Memory reads how much there is; nil
	// looks at the machine.
	MemoryLow int64
	Memory    func() (sandbox.Memory, error)
	// Drain is how long the calls that run have to end when the node is shut down; what is
	// left then is stopped. 0 means DefaultDrain.
	Drain   time.Duration
	Version string
	Log     *slog.Logger
	// Ready is called once, when the node serves.
	Ready func(http, listen, nodeID string)
	// Interpreter is the Python to run code with; empty means the python3 on PATH.
	Interpreter  string
	Environments EnvironmentsConfig
	Audit        AuditConfig
	// TraceEndpoint is the URL of the collector that traces are sent to, as
	// OTEL_EXPORTER_OTLP_ENDPOINT has it, over which it wins. With neither there are none.
	TraceEndpoint string
	// Limits bounds each kernel: a session, a stateless call, a copy. Zero fields
	// mean DefaultLimits.
	Limits sandbox.Limits
}

// DefaultLimits gives what one kernel may use on this machine: three quarters of
// its memory, and 4096 processes.
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
		c.Memory = sandbox.ReadMemory
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
	// DefaultMaxSessions is how many sessions a node takes.
	DefaultMaxSessions = 4096
	// DefaultDrain is how long running calls have to end when a node is shut down.
	DefaultDrain = 10 * time.Second
)

// capacity is what the node tells the others that it has.
func (c Config) capacity() registry.Capacity {
	return registry.Capacity{MaxSessions: c.MaxSessions, CPUs: float64(runtime.NumCPU()), MemoryBytes: machineMemory()}
}

func (c Config) registryConfig() registry.Config {
	return registry.Config{
		Dir: c.path("registry"), Log: c.Log, Lease: c.Lease, Heartbeat: c.Heartbeat, MaxVoters: c.Voters,
	}
}

// environmentsDir is where in the data directory the environments are.
const environmentsDir = "environments"

// shown lists what of the data directory code may read: the environments, and the
// Pythons that were installed for them.
func (c Config) shown() []string {
	return []string{c.path(environmentsDir, "envs"), c.path(environmentsDir, "python")}
}

func (c Config) path(parts ...string) string {
	return filepath.Join(append([]string{c.DataDir}, parts...)...)
}

// directories makes what the node keeps its things in.
func (c Config) directories() error {
	for _, dir := range []string{c.DataDir, c.path("workspaces"), c.path("scratch"), c.path("cache"), c.path(environmentsDir)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("node: data directory: %w", err)
		}
	}
	return nil
}
