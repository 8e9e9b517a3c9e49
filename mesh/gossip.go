package mesh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// Profile sets the timing of gossip: how fast failures are detected and news spreads.
type Profile struct {
	Probe        time.Duration // between two probes; each probes one peer
	ProbeTimeout time.Duration // how long a probe waits for its answer before it asks other members to try
	Suspicion    int           // probe intervals, scaled by the cluster's size, from suspect to dead
	Spread       time.Duration // between two rounds of gossip
	PushPull     time.Duration // between two full state exchanges with one peer
	Reclaim      time.Duration // how long a dead node's name cannot be taken by another address
	Rejoin       time.Duration // between two attempts to reach known nodes that are not members
}

// Profiles: Steady detects a dead node in about five seconds, Fast in less than one. Fast
// costs more wake-ups of idle nodes.
var (
	Steady = Profile{time.Second, 500 * time.Millisecond, 3, 250 * time.Millisecond, 10 * time.Second, 5 * time.Second, 10 * time.Second}
	Fast   = Profile{200 * time.Millisecond, 100 * time.Millisecond, 2, 50 * time.Millisecond, 5 * time.Second, time.Second, 3 * time.Second}
)

// GossipConfig configures gossip.
type GossipConfig struct {
	// Key has 32 bytes and is the same in the whole cluster. Gossip authenticates nothing
	// else: any holder of the key can say anything.
	Key []byte
	// Advertise is the "host:port" at which others reach this node. The default is the
	// socket's address, which then must not be a wildcard.
	Advertise string
	// Meta is the initial metadata; see Update.
	Meta Meta
	// Profile is Steady by default.
	Profile Profile
	// Known returns the addresses of all nodes that should be members. They are joined again
	// after a partition so long that both sides have forgotten each other.
	Known func() []string
	// Accept, if set, may refuse a member. It must not block, and must not call the Gossip.
	Accept func(Member) error
}

// State is what gossip believes of a member. It is only a hint.
type State byte

const (
	// Alive includes members that are suspected.
	Alive State = iota
	// Dead members did not answer.
	Dead
	// Left members announced that they leave. A member may be reported as Dead although it
	// has left, if its announcement was lost.
	Left
)

// String returns the name of the state.
func (s State) String() string { return [...]string{"alive", "dead", "left"}[s] }

// Member is one node as gossip sees it.
type Member struct {
	ID          string
	Addr        string // host:port
	Incarnation uint64 // of the node, from its Meta
	State       State
	Data        []byte    // Meta.Data; read-only
	Since       time.Time // when State began
}

// Gossip keeps the list of members. Safe for concurrent use.
type Gossip struct {
	m       *Mesh
	cfg     GossipConfig
	list    *memberlist.Memberlist
	keys    *memberlist.Keyring
	meta    atomic.Pointer[Meta]
	changes chan struct{} // holds a token after a change of members
	cancel  context.CancelFunc
	ended   chan struct{} // the rejoin loop

	closing  sync.Mutex
	shutdown bool // guarded by closing

	mu      sync.Mutex
	members map[string]Member
	leavers map[string]bool // members that have announced that they leave
}

// maxGone bounds the dead and left members that are remembered.
const maxGone = 256

// Gossip starts gossip over the mesh's socket. There can be one at a time. Closing the
// mesh closes it.
func (m *Mesh) Gossip(cfg GossipConfig) (*Gossip, error) {
	if len(cfg.Key) != 32 || len(cfg.Meta.Data) > MaxMetaData {
		return nil, errors.New("mesh: gossip needs a key of 32 bytes and metadata of bounded size")
	}
	if cfg.Profile == (Profile{}) {
		cfg.Profile = Steady
	}
	if cfg.Known == nil {
		cfg.Known = func() []string { return nil }
	}
	advertise, err := m.advertised(cfg.Advertise)
	if err != nil {
		return nil, err
	}
	g := &Gossip{
		m: m, cfg: cfg, members: map[string]Member{}, leavers: map[string]bool{},
		changes: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	g.setMeta(cfg.Meta)
	transport, err := m.gossipTransport(advertise)
	if err != nil {
		return nil, err
	}
	conf, err := g.memberlist(transport)
	if err == nil {
		g.list, err = memberlist.Create(conf)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mesh: gossip: %w", err), transport.Shutdown())
	}
	ctx, cancel := context.WithCancel(m.ctx)
	g.cancel = cancel
	m.mu.Lock()
	m.gossip = g
	m.mu.Unlock()
	if !m.spawn(func() {
		defer close(g.ended)
		g.rejoin(ctx)
	}) {
		close(g.ended)
		return nil, errors.Join(ErrClosed, g.Close())
	}
	return g, nil
}

func (m *Mesh) advertised(addr string) (netip.AddrPort, error) {
	if addr == "" {
		addr = m.Addr().String()
	}
	udp, err := resolve(m.ctx, addr)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("mesh: gossip address: %w", err)
	}
	at := udp.AddrPort()
	if at.Addr().IsUnspecified() {
		return netip.AddrPort{}, fmt.Errorf("mesh: others cannot reach a node at %s: an address to advertise is needed", addr)
	}
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port()), nil
}

func (g *Gossip) memberlist(transport *gossipTransport) (*memberlist.Config, error) {
	keys, err := memberlist.NewKeyring(nil, g.cfg.Key)
	if err != nil {
		return nil, err
	}
	g.keys = keys
	p := g.cfg.Profile
	conf := memberlist.DefaultLANConfig()
	conf.Name = g.m.id.ID
	conf.Transport = transport
	conf.Keyring = keys
	conf.ProbeInterval, conf.ProbeTimeout = p.Probe, p.ProbeTimeout
	conf.SuspicionMult, conf.SuspicionMaxTimeoutMult = p.Suspicion, 3
	conf.GossipInterval = p.Spread
	conf.PushPullInterval = p.PushPull
	conf.DeadNodeReclaimTime = p.Reclaim
	conf.TCPTimeout = g.m.cfg.Handshake
	conf.UDPBufferSize = packetSize - 1
	conf.EnableCompression = false // it gains little, and would allow decompression bombs
	conf.Delegate, conf.Events, conf.Alive = (*gossipDelegate)(g), (*gossipEvents)(g), (*gossipFilter)(g)
	conf.Logger = log.New(logWriter{g.m.log}, "", 0)
	return conf, nil
}

func (g *Gossip) setMeta(meta Meta) {
	meta.cluster = clusterHash(g.m.id.Cluster)
	g.meta.Store(&meta)
}

// Join exchanges state with the nodes at the addresses ("host:port"). It fails only if
// none of them can be reached.
func (g *Gossip) Join(addrs []string) error {
	const atOnce = 8
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	failures := make([]error, len(addrs))
	for i, addr := range addrs {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			failures[i] = g.joinOne(addr)
		})
	}
	wg.Wait()
	if len(addrs) == 0 || slices.Contains(failures, nil) {
		return nil
	}
	return fmt.Errorf("mesh: no node could be met: %w", errors.Join(failures...))
}

func (g *Gossip) joinOne(addr string) error {
	udp, err := resolve(g.m.ctx, addr)
	if err != nil {
		return err
	}
	_, err = g.list.Join([]string{udp.String()})
	return err
}

// Members lists the live members, this node included, and up to maxGone that are gone.
func (g *Gossip) Members() []Member {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := make([]Member, 0, len(g.members))
	for _, member := range g.members {
		list = append(list, member)
	}
	slices.SortFunc(list, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// Addr returns the address of a member, or "" if it is unknown. It can serve as
// Config.Locate.
func (g *Gossip) Addr(id string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.members[id].Addr
}

// Changes receives a value when Members may have changed. Changes are coalesced while
// nobody receives.
func (g *Gossip) Changes() <-chan struct{} { return g.changes }

// Update spreads new metadata of this node.
func (g *Gossip) Update(meta Meta) error {
	if len(meta.Data) > MaxMetaData {
		return fmt.Errorf("%w: metadata of %d bytes", ErrTooLarge, len(meta.Data))
	}
	g.closing.Lock()
	defer g.closing.Unlock()
	if g.shutdown {
		return ErrClosed
	}
	g.setMeta(meta)
	return g.list.UpdateNode(g.m.cfg.Handshake)
}

// AddKey is the first of three steps that rotate the gossip key of a cluster: AddKey makes
// a new key known, UseKey encrypts with it, RemoveKey forgets the old one. Each step must
// be done on all nodes before the next.
func (g *Gossip) AddKey(key []byte) error { return g.keys.AddKey(key) }

// UseKey encrypts with a key that was added with AddKey.
func (g *Gossip) UseKey(key []byte) error { return g.keys.UseKey(key) }

// RemoveKey forgets a key that is no longer in use.
func (g *Gossip) RemoveKey(key []byte) error { return g.keys.RemoveKey(key) }

// logWriter forwards memberlist's warnings and errors to the log, and the rest at debug
// level.
type logWriter struct{ log *slog.Logger }

func (w logWriter) Write(line []byte) (int, error) {
	text := string(bytes.TrimSpace(line))
	switch {
	case bytes.HasPrefix(line, []byte("[ERR]")), bytes.HasPrefix(line, []byte("[WARN]")):
		w.log.Warn("gossip", "msg", text)
	default:
		w.log.Debug("gossip", "msg", text)
	}
	return len(line), nil
}
