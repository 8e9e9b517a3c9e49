package member

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/quic-go/quic-go"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/registry"
)

// Config configures a Member. Dir, MaxRTT, Conn and Log are required.
type Config struct {
	// Dir holds the member's secrets. It is created if missing.
	Dir string
	// ID is the node's id if it founds a mesh. A joining node is given its id.
	ID string
	// Join is the address of a node of the mesh to join, Token the join token. Both are
	// ignored if this process is a member already.
	Join, Token string
	// MaxRTT is the longest round trip to another node that the mesh's timeouts allow.
	// Nodes beyond it are reported in the log.
	MaxRTT time.Duration
	// Conn is the node's UDP socket; it is used to join.
	Conn net.PacketConn
	Log  *slog.Logger
}

// Member is this process's membership. Its methods are safe for concurrent use.
type Member struct {
	cfg         Config
	log         *slog.Logger
	stage       stage
	credentials *certs.Credentials
	reset       *quic.StatelessResetKey
	gossipKey   []byte
	addresses   addresses
	sealKey     certs.SealKey

	saving    sync.Mutex // held while the credentials are written
	mu        sync.Mutex
	authority map[certs.Pin]*certs.Authority // by root

	attached chan struct{} // closed once the fields below are set
	mesh     *mesh.Mesh
	registry *registry.Registry
}

// Errors of Open.
var (
	// ErrNoToken: the node is to join a mesh, but has neither a membership nor a token.
	ErrNoToken = errors.New("member: to join a mesh takes a token: make one with locus token create --role node on a node of it")
	// ErrLostRegistry: the node was a member, but its registry data is missing.
	ErrLostRegistry = errors.New("member: this node was part of a mesh, and its registry is gone")
)

// Open returns this process's membership: the existing one, or a new one by joining or
// founding a mesh. registryThere says that the node has registry data on disk.
func Open(ctx context.Context, cfg Config, registryThere bool) (*Member, error) {
	m := &Member{cfg: cfg, log: cfg.Log, authority: map[certs.Pin]*certs.Authority{}, attached: make(chan struct{})}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("member: %w", err)
	}
	var err error
	if m.stage, err = m.readStage(); err != nil {
		return nil, err
	}
	if m.reset, err = m.resetKey(); err != nil {
		return nil, err
	}
	if err := m.loadPeers(); err != nil {
		return nil, err
	}
	m.credentials, err = certs.LoadCredentials(cfg.Dir)
	switch {
	case err == nil && m.stage != "":
		err = m.resume(registryThere)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case cfg.Join != "":
		err = m.join(ctx)
	default:
		err = m.found()
	}
	if err != nil {
		return nil, err
	}
	if err := m.loadAuthorities(); err != nil {
		return nil, err
	}
	if err := m.refresh(time.Now()); err != nil {
		return nil, err
	}
	return m, m.recover(ctx)
}

// refresh renews the certificate locally if this node holds the authority and the
// certificate has expired or soon will. Without it a mesh could not restart after all
// voters were down for longer than a certificate lives.
func (m *Member) refresh(now time.Time) error {
	a := m.issuing()
	if a == nil || now.Before(m.credentials.Leaf().NotAfter.Add(-certs.Skew-certs.DefaultLifetime/4)) {
		return nil
	}
	key, err := certs.NewKey()
	if err != nil {
		return err
	}
	chain, err := a.Issue(m.credentials.Identity(), key.Public(), now, certs.DefaultLifetime)
	if err != nil {
		return err
	}
	if err := m.credentials.Replace(tls.Certificate{Certificate: chain, PrivateKey: key}); err != nil {
		return err
	}
	m.log.Info("the certificate had expired or was about to; this node issued itself a new one")
	return m.save(m.credentials)
}

// resume continues an existing membership.
func (m *Member) resume(registryThere bool) error {
	if m.stage == settled && !registryThere {
		return fmt.Errorf("%w: restore the data directory, or remove it and join again with a new token", ErrLostRegistry)
	}
	m.gossipKey = make([]byte, gossipKeyBytes)
	return m.keptBytes(gossipKeyFile, m.gossipKey)
}

const gossipKeyBytes = 32

// found creates a new mesh.
func (m *Member) found() error {
	now := time.Now()
	cluster := strings.ReplaceAll(uuid.NewString(), "-", "")
	authority, err := certs.NewAuthority(cluster, now)
	if err != nil {
		return err
	}
	key, err := certs.NewKey()
	if err != nil {
		return err
	}
	id := certs.Identity{Cluster: cluster, Role: certs.RoleNode, ID: m.cfg.ID}
	chain, err := authority.Issue(id, key.Public(), now, certs.DefaultLifetime)
	if err != nil {
		return err
	}
	trust := certs.Trust{Roots: []*x509.Certificate{authority.Root()}}
	if m.credentials, err = certs.NewCredentials(tls.Certificate{Certificate: chain, PrivateKey: key}, trust); err != nil {
		return err
	}
	m.gossipKey = make([]byte, gossipKeyBytes)
	if err := m.keptBytes(gossipKeyFile, m.gossipKey); err != nil {
		return err
	}
	if err := m.keep(authority); err != nil {
		return err
	}
	m.log.Info("founded a new mesh", "cluster", cluster, "pin", certs.PinOf(authority.Root()))
	return m.begin(founding)
}

// begin writes the credentials, then the stage. A process that is interrupted between the
// two starts over.
func (m *Member) begin(s stage) error {
	m.stage = s
	if err := m.save(m.credentials); err != nil {
		return err
	}
	return m.write(stageFile, []byte(s+"\n"))
}

func (m *Member) save(c *certs.Credentials) error {
	m.saving.Lock()
	defer m.saving.Unlock()
	return certs.SaveCredentials(m.cfg.Dir, c)
}

// MarkEstablished records that this node has the registry.
func (m *Member) MarkEstablished() error {
	if m.stage == settled {
		return nil
	}
	m.stage = settled
	return m.write(stageFile, []byte(settled+"\n"))
}

// ID returns the node's id.
func (m *Member) ID() registry.NodeID { return registry.NodeID(m.credentials.Identity().ID) }

// Cluster returns the mesh's id.
func (m *Member) Cluster() string { return m.credentials.Identity().Cluster }

// IsFounding reports whether this node is to create the mesh's registry.
func (m *Member) IsFounding() bool { return m.stage == founding }

// IsJoining reports whether this node has yet to be admitted to the mesh's registry.
func (m *Member) IsJoining() bool { return m.stage == joining }

// Credentials returns the node's certificate and trust roots.
func (m *Member) Credentials() *certs.Credentials { return m.credentials }

// ResetKey returns the QUIC stateless reset key, which survives restarts.
func (m *Member) ResetKey() *quic.StatelessResetKey { return m.reset }

// GossipKey returns the key to start gossiping with.
func (m *Member) GossipKey() []byte { return m.gossipKey }

// Locate returns the address of a node, "" if unknown. It does not block.
func (m *Member) Locate(id string) string { return m.addresses.Locate(id) }

// Addresses lists the addresses of the nodes.
func (m *Member) Addresses() []string { return m.addresses.list() }

// note replaces the known addresses and saves them if they changed. It ignores a list
// without this node: that registry is not up to date.
func (m *Member) note(nodes []mesh.NodeAddr) {
	if !slices.ContainsFunc(nodes, func(n mesh.NodeAddr) bool { return n.ID == string(m.ID()) }) {
		return
	}
	news := m.addresses.only(nodes)
	for _, n := range nodes {
		news = m.addresses.set(n.ID, n.Addr) || news
	}
	if !news {
		return
	}
	if err := m.savePeers(); err != nil {
		m.log.Warn("the addresses of the nodes could not be saved", "error", err)
	}
}

// Attach sets the mesh and the registry. The methods block until then.
func (m *Member) Attach(on *mesh.Mesh, r *registry.Registry) {
	m.mesh, m.registry = on, r
	close(m.attached)
}

// ready waits for Attach.
func (m *Member) ready(ctx context.Context) error {
	select {
	case <-m.attached:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
