package mesh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/locusrun/locus/certs"
)

// ALPN protocols. A change that an older version would not understand gets a new number,
// which is offered beside the old one.
const (
	protocolNode = "locus-node/1"
	protocolJoin = certs.JoinProtocol
)

// Defaults of Config.
const (
	DefaultKeepAlive = 2 * time.Second
	DefaultMaxIdle   = 6 * time.Second
	DefaultHandshake = 5 * time.Second
	DefaultGrace     = 2 * time.Second
)

// Class selects the connection, of the two to a peer, that carries a method.
type Class byte

const (
	// Control is for small, urgent messages: registry, leases, raft.
	Control Class = iota
	// Data is for everything that may be large or slow.
	Data
	classes = iota
)

// String names the class.
func (c Class) String() string {
	if c == Data {
		return "data"
	}
	return "control"
}

// Method is one RPC method.
type Method struct {
	// Roles may call the method. An empty list allows nobody.
	Roles []certs.Role
	Class Class
	// Handle serves one call. Its context ends, with a cause, when the caller cancels,
	// the connection is lost, or the mesh closes. The call ends when Handle returns. The
	// caller gets an *Error as it is, and any other error as an *Error with CodeInternal
	// and the error's text. A panic ends only this call. If Handle is nil this process
	// calls the method on peers but does not serve it.
	Handle func(ctx context.Context, s *Stream) error
}

// Config is what a mesh needs. Conn and Credentials must be set.
type Config struct {
	// Conn is the node's one UDP socket, owned by the mesh from Open on. Pass a
	// *net.UDPConn itself, not a wrapper, so that the kernel's batching is used.
	Conn net.PacketConn
	// Credentials are read at each handshake, so a change needs no restart.
	Credentials *certs.Credentials
	// DialOnly is for linked machines: the process dials nodes and accepts no connections.
	DialOnly bool
	// ResetKey must be the same after a restart. It lets peers find out at once, by a
	// stateless reset, that this process has restarted.
	ResetKey *quic.StatelessResetKey
	// Methods by name, such as "registry/propose": at most 64 bytes of lower case
	// letters, digits, and "./-_". Calls of a method that is not here travel as Data.
	Methods map[string]Method
	// Locate returns the current "host:port" of a peer, or "" if it is unknown. It is
	// called for each call, concurrently, and must not block. Addresses are compared as
	// text: when it changes, connections to the old address take no new calls.
	Locate func(id string) string
	// Enrol decides on requests to join. If nil, enrolment is not served.
	Enrol func(ctx context.Context, req EnrolRequest) (EnrolReply, error)
	// Recover renews expired certificates of members. If nil, that is not served.
	Recover func(ctx context.Context, req RecoverRequest) (EnrolReply, error)
	// Log is slog.Default() if nil.
	Log *slog.Logger

	// KeepAlive is the time between keep-alive packets on a connection that this process
	// dialled. MaxIdle is the silence after which a connection is considered lost; the
	// lower value of the two sides applies. Handshake bounds the wait for a new connection.
	KeepAlive, MaxIdle, Handshake time.Duration
	// Grace is how long Close lets running handlers finish.
	Grace time.Duration

	windows windows
}

// windows are the flow-control limits of a connection. They are fixed, so that it is
// known how much of the connection's window one unread stream can hold.
type windows struct {
	stream  uint64 // receive window of a stream, in bytes
	conn    uint64 // receive window of a connection, in bytes
	stalled int    // streams per connection that may stay unread
	streams int64  // streams per connection that a peer may have open
}

var defaultWindows = windows{stream: 256 << 10, conn: 16 << 20, stalled: 32, streams: 2048}

// ignoredUnread is how many bytes a stream may leave unread without counting as stalled.
const ignoredUnread = 1 << 10

// validate checks that unread streams alone cannot fill the window of their connection,
// which would block every other call on it.
func (w windows) validate() error {
	if most := uint64(w.stalled)*w.stream + uint64(w.streams)*ignoredUnread; most >= w.conn {
		return fmt.Errorf("mesh: unread streams can hold %d bytes of the connection's window of %d", most, w.conn)
	}
	return nil
}

// isName reports whether name is valid for a method or a kind of stream layer: 1 to 64
// bytes of lower-case letters, digits and, except for the first byte, "./-_".
func isName[T string | []byte](name T) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		case i > 0 && (c == '.' || c == '/' || c == '-' || c == '_'):
		default:
			return false
		}
	}
	return 0 < len(name) && len(name) <= maxName
}

func (c Config) withDefaults() (Config, error) {
	if c.Conn == nil || c.Credentials == nil {
		return c, errors.New("mesh: a config needs Conn and Credentials")
	}
	c.KeepAlive = cmp.Or(c.KeepAlive, DefaultKeepAlive)
	c.MaxIdle = cmp.Or(c.MaxIdle, DefaultMaxIdle)
	c.Handshake = cmp.Or(c.Handshake, DefaultHandshake)
	c.Grace = cmp.Or(c.Grace, DefaultGrace)
	c.Log = cmp.Or(c.Log, slog.Default())
	c.windows = cmp.Or(c.windows, defaultWindows)
	if c.Locate == nil {
		c.Locate = func(string) string { return "" }
	}
	for name, method := range c.Methods {
		if !isName(name) {
			return c, fmt.Errorf("mesh: bad method name %q", name)
		}
		if method.Class >= classes {
			return c, fmt.Errorf("mesh: method %s has no valid class", name)
		}
	}
	return c, c.windows.validate()
}

// quic returns the QUIC settings of the dialling or of the listening side. Only the
// dialling side opens streams, except for the one that announces that the listener closes.
func (c Config) quic(listens bool) *quic.Config {
	conf := &quic.Config{
		Versions:                       []quic.Version{quic.Version1},
		HandshakeIdleTimeout:           c.Handshake,
		MaxIdleTimeout:                 c.MaxIdle,
		KeepAlivePeriod:                c.KeepAlive,
		InitialStreamReceiveWindow:     c.windows.stream,
		MaxStreamReceiveWindow:         c.windows.stream,
		InitialConnectionReceiveWindow: c.windows.conn,
		MaxConnectionReceiveWindow:     c.windows.conn,
		MaxIncomingStreams:             -1,
		MaxIncomingUniStreams:          1,
		// The smallest packet size that QUIC allows also fits paths with an MTU of 1280
		// bytes, which many tunnels have. MTU discovery is off: a connection that has raised
		// its packet size does not notice when the path's MTU shrinks. It would stay alive
		// by its small packets and lose all others.
		InitialPacketSize:       packetSize,
		DisablePathMTUDiscovery: true,
	}
	if listens {
		conf.KeepAlivePeriod = 0 // the dialling side's are acknowledged, which serves both
		conf.MaxIncomingStreams = c.windows.streams
		conf.MaxIncomingUniStreams = -1
		conf.RequireStreamCreditRelease = true
	}
	return conf
}
