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

// The protocols that are agreed on in the TLS handshake. A change that an older
// version would not understand gets a new number beside the old one.
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

// Class says on which of the two connections to a peer a method travels.
type Class byte

const (
	// Control is for small and urgent things: registry, leases, raft.
	Control Class = iota
	// Data is for all that may be large or slow.
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

// Method is one thing that this process serves.
type Method struct {
	// Roles may call it; with none, nobody may.
	Roles []certs.Role
	Class Class
	// Handle serves one call. Its context ends, with a cause, when the caller cancels,
	// the connection is gone, or the mesh closes. When Handle returns, the call is
	// over: nil is the orderly end, an *Error goes to the caller as it is, and any
	// other error as one with CodeInternal and its text. A panic ends this call only.
	// Without Handle, the method is only called from here, not served.
	Handle func(ctx context.Context, s *Stream) error
}

// Config is what a mesh needs. Conn and Credentials must be set.
type Config struct {
	// Conn is the node's one UDP socket, owned by the mesh from Open on. Pass a
	// *net.UDPConn itself, not a wrapper, so that the kernel's batching is used.
	Conn net.PacketConn
	// Credentials are read at each handshake, so that a change needs no restart.
	Credentials *certs.Credentials
	// DialOnly is for machines that are no nodes: nobody can dial this process.
	DialOnly bool
	// ResetKey, kept over restarts, lets peers notice at once that this process has
	// been started anew.
	ResetKey *quic.StatelessResetKey
	// Methods by name, such as "registry/propose": at most 64 bytes of lower case
	// letters, digits, and "./-_". Calls of a method that is not here travel as Data.
	Methods map[string]Method
	// Locate gives the present "host:port" of a peer, "" if unknown. Called for each call
	// and concurrently; it must not block. Another text is another address: connections
	// to the old one take no new calls.
	Locate func(id string) string
	// Enrol serves the enrolment door; nil keeps it closed.
	Enrol func(ctx context.Context, req EnrolRequest) (EnrolReply, error)
	// Recover serves members at the same door whose certificate has expired; nil
	// serves none.
	Recover func(ctx context.Context, req RecoverRequest) (EnrolReply, error)
	// Log takes what an operator should know; nil is slog's default.
	Log *slog.Logger

	// KeepAlive is the time between signs of life on a quiet connection that was dialled
	// from here, MaxIdle the time without any after which a connection is dead (the lower
	// of both sides counts), Handshake the longest wait for a new connection.
	KeepAlive, MaxIdle, Handshake time.Duration
	// Grace is how long Close lets running calls end by themselves.
	Grace time.Duration

	windows windows
}

// windows bound what a peer may send before it is read. Fixed, not growing: what one
// unread stream can pin of its connection's window is then known.
type windows struct {
	stream  uint64 // bytes per stream
	conn    uint64 // bytes per connection
	stalled int    // streams per connection that may stay unread
	streams int64  // streams per connection that a peer may have open
}

var defaultWindows = windows{stream: 256 << 10, conn: 16 << 20, stalled: 32, streams: 2048}

// littleUnread is so little data, in bytes, that a stream which leaves it unread does
// not count as stalled.
const littleUnread = 1 << 10

// validate keeps the rule that unread streams alone can never use up the window of
// their connection, which would freeze every other call on it.
func (w windows) validate() error {
	if most := uint64(w.stalled)*w.stream + uint64(w.streams)*littleUnread; most >= w.conn {
		return fmt.Errorf("mesh: unread streams can hold %d bytes of the connection's window of %d", most, w.conn)
	}
	return nil
}

// isName reports whether a text names a method, or a kind of layer: at most 64 bytes of
// lower case letters, digits and, but for the first one, "./-_".
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

// quic gives the transport's settings for the side that dials or that listens. Only
// the dialling side opens streams, save for the one that says good-bye.
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
		// The least that QUIC may begin with passes paths of 1280 bytes, as those of many
		// tunnels are. It stays at that: a connection that has grown for a wide path does not
		// notice when the path becomes a narrow one. It would live by its small packets and
		// bring nothing else.
		InitialPacketSize:       packetSize,
		DisablePathMTUDiscovery: true,
	}
	if listens {
		conf.KeepAlivePeriod = 0 // the dialling side's are answered, which both sides hear
		conf.MaxIncomingStreams = c.windows.streams
		conf.MaxIncomingUniStreams = -1
		conf.RequireStreamCreditRelease = true
	}
	return conf
}
