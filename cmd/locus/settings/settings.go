// Package settings collects a node's settings from flags and a configuration file, and
// locks its data directory.
package settings

import (
	"bytes"
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// Defaults of a node. By default the mesh listens on a random loopback port, so that nodes
// on one machine do not collide; other machines need an explicit address anyway.
const (
	DefaultHTTP      = "127.0.0.1:7070"
	DefaultListen    = "127.0.0.1:0"
	DefaultLogLevel  = "info"
	DefaultLogFormat = "text"
)

// maxFile bounds the configuration file, in bytes.
const maxFile = 1 << 20

// Settings are the settings of a node. The tags are their names in the file. Empty fields
// are not set.
type Settings struct {
	// Data is the data directory.
	Data string `yaml:"data"`
	// HTTP is the TCP address of the HTTP API.
	HTTP string `yaml:"http"`
	// Listen is the UDP address of the mesh.
	Listen string `yaml:"listen"`
	// Advertise is where other nodes reach Listen, as HOST or HOST:PORT.
	Advertise string `yaml:"advertise"`
	// Join is the mesh address of a node to join; Token is the join token.
	Join  string `yaml:"join"`
	Token string `yaml:"token"`
	// Labels describe the node for the placement of sessions.
	Labels map[string]string `yaml:"labels"`
	// Voters bounds the number of voters; 0 is the node's default.
	Voters int `yaml:"voters"`
	// Fast makes lost nodes noticed sooner, on a reliable network. Nil is false.
	Fast *bool `yaml:"fast"`
	// MaxSessions bounds the node's sessions; 0 is the node's default.
	MaxSessions int `yaml:"max_sessions"`
	// SessionIdle is how long a session may be idle before it is closed; 0 never closes
	// any.
	SessionIdle time.Duration `yaml:"session_idle"`
	// MemoryLow is the available memory in MiB below which the node frees what it can; 0 is
	// the node's default.
	MemoryLow int `yaml:"memory_low"`
	// Uv is the path of uv; if empty, uv from PATH or a downloaded one.
	Uv string `yaml:"uv"`
	// EnvSources allows environments to build packages from source.
	EnvSources *bool `yaml:"env_sources"`
	// EnvBuildLimit bounds one build of an environment, EnvMaxAge is how long an unused one
	// is kept, EnvMaxGiB bounds all of them and their cache. 0 is the node's default.
	EnvBuildLimit time.Duration `yaml:"env_build_limit"`
	EnvMaxAge     time.Duration `yaml:"env_max_age"`
	EnvMaxGiB     int           `yaml:"env_max_gib"`
	// AuditMaxMiB bounds the audit log's files, AuditMaxAge the age of its entries. 0 is
	// the node's default.
	AuditMaxMiB int           `yaml:"audit_max_mib"`
	AuditMaxAge time.Duration `yaml:"audit_max_age"`
	// TraceEndpoint is the URL of the OTLP collector; if empty, OpenTelemetry's environment
	// variables apply.
	TraceEndpoint string `yaml:"trace_endpoint"`
	// LogLevel is debug, info, warn or error; LogFormat text or json.
	LogLevel  string `yaml:"log_level"`
	LogFormat string `yaml:"log_format"`
}

// Load reads a YAML file. An unknown name is an error with its line.
func Load(path string) (Settings, error) {
	var s Settings
	info, err := os.Stat(path)
	if err != nil {
		return s, err
	}
	if info.Size() > maxFile {
		return s, fmt.Errorf("%s is longer than %d bytes", path, maxFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return s, nil
	}
	if err := yaml.UnmarshalWithOptions(text, &s, yaml.Strict()); err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// Over returns these settings, with unset fields taken from below.
func (s Settings) Over(below Settings) Settings {
	pick := func(upper *string, lower string) { *upper = cmp.Or(*upper, lower) }
	pick(&s.Data, below.Data)
	pick(&s.HTTP, below.HTTP)
	pick(&s.Listen, below.Listen)
	pick(&s.Advertise, below.Advertise)
	pick(&s.Join, below.Join)
	pick(&s.Token, below.Token)
	pick(&s.LogLevel, below.LogLevel)
	pick(&s.LogFormat, below.LogFormat)
	if s.Labels == nil {
		s.Labels = below.Labels
	}
	s.Voters = cmp.Or(s.Voters, below.Voters)
	s.Fast = cmp.Or(s.Fast, below.Fast)
	s.MaxSessions = cmp.Or(s.MaxSessions, below.MaxSessions)
	s.SessionIdle = cmp.Or(s.SessionIdle, below.SessionIdle)
	s.MemoryLow = cmp.Or(s.MemoryLow, below.MemoryLow)
	pick(&s.Uv, below.Uv)
	s.EnvSources = cmp.Or(s.EnvSources, below.EnvSources)
	s.EnvBuildLimit = cmp.Or(s.EnvBuildLimit, below.EnvBuildLimit)
	s.EnvMaxAge = cmp.Or(s.EnvMaxAge, below.EnvMaxAge)
	s.EnvMaxGiB = cmp.Or(s.EnvMaxGiB, below.EnvMaxGiB)
	s.AuditMaxMiB = cmp.Or(s.AuditMaxMiB, below.AuditMaxMiB)
	s.AuditMaxAge = cmp.Or(s.AuditMaxAge, below.AuditMaxAge)
	pick(&s.TraceEndpoint, below.TraceEndpoint)
	return s
}

// Defaults returns the default settings.
func Defaults() Settings {
	return Settings{HTTP: DefaultHTTP, Listen: DefaultListen, LogLevel: DefaultLogLevel, LogFormat: DefaultLogFormat}
}

// InvalidError is an invalid setting, with advice.
type InvalidError struct{ Reason, Advice string }

// Error returns the reason.
func (e *InvalidError) Error() string { return e.Reason }

// ErrIncompleteJoin is the error for a token without an address to join, or for an address
// without a token if this machine is not a member yet.
var ErrIncompleteJoin = &InvalidError{"joining a mesh takes both an address to join and a token", "give --join ADDR and --token TOKEN, or neither; a node of the mesh makes a token with: locus token create --role node"}

// Check returns an error for settings that are invalid.
func (s Settings) Check() error {
	if s.Token != "" && s.Join == "" {
		return ErrIncompleteJoin
	}
	if s.Join != "" {
		if host, port, err := net.SplitHostPort(s.Join); err != nil || host == "" || port == "" {
			return fmt.Errorf("the address to join is HOST:PORT, not %q", s.Join)
		}
	}
	for _, addr := range []string{s.HTTP, s.Listen} {
		if _, port, err := net.SplitHostPort(addr); err != nil || !isPort(port) {
			return &InvalidError{fmt.Sprintf("the address to serve at is HOST:PORT, not %q", addr), "give one such as " + DefaultHTTP + "; port 0 is any free one"}
		}
	}
	if s.Voters != 0 && !slices.Contains([]int{1, 3, 5}, s.Voters) {
		return fmt.Errorf("a mesh has 1, 3 or 5 voters, not %d", s.Voters)
	}
	if s.MaxSessions < 0 {
		return fmt.Errorf("a node cannot take %d sessions", s.MaxSessions)
	}
	if s.SessionIdle < 0 {
		return fmt.Errorf("the idle limit of sessions cannot be %s", s.SessionIdle)
	}
	if s.MemoryLow < 0 {
		return fmt.Errorf("the low mark of memory cannot be %d MiB", s.MemoryLow)
	}
	if s.EnvBuildLimit < 0 || s.EnvMaxAge < 0 || s.EnvMaxGiB < 0 {
		return fmt.Errorf("the limits on environments cannot be negative")
	}
	if s.AuditMaxMiB < 0 || s.AuditMaxAge < 0 {
		return fmt.Errorf("the bounds on the audit log cannot be negative")
	}
	if u, err := url.Parse(s.TraceEndpoint); s.TraceEndpoint != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return &InvalidError{fmt.Sprintf("traces are sent to an URL of http or https, not to %q", s.TraceEndpoint), "give one such as http://127.0.0.1:4318"}
	}
	if _, err := s.level(); err != nil {
		return err
	}
	if s.LogFormat != "text" && s.LogFormat != "json" {
		return fmt.Errorf("there is no log format %q; give text or json", s.LogFormat)
	}
	return nil
}

func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

func (s Settings) level() (slog.Level, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.LogLevel)); err != nil {
		return 0, fmt.Errorf("there is no log level %q; give debug, info, warn or error", s.LogLevel)
	}
	return level, nil
}

// Labels parses k=v,k=v. An empty text has none.
func Labels(text string) (map[string]string, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	labels := map[string]string{}
	for _, pair := range strings.Split(text, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("label %q is not of the form k=v", pair)
		}
		if _, twice := labels[key]; twice {
			return nil, fmt.Errorf("label %q is given twice", key)
		}
		labels[key] = value
	}
	return labels, nil
}
