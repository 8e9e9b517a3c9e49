package member

import (
	"context"
	"fmt"
	"os"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
)

// join becomes a member with the configured token.
func (m *Member) join(ctx context.Context) error {
	if m.cfg.Token == "" {
		return ErrNoToken
	}
	token, err := certs.ParseToken(m.cfg.Token)
	if err != nil {
		return fmt.Errorf("member: the token: %w", err)
	}
	if token.Role != certs.RoleNode {
		return fmt.Errorf("member: the token is for the role %s, and this machine is to be a node: make one with locus token create --role node", token.Role)
	}
	key, err := certs.JoinKey(m.path(joinKeyFile))
	if err != nil {
		return fmt.Errorf("member: %w", err)
	}
	reply, err := mesh.EnrolWithRetry(ctx, mesh.Joiner{Conn: m.cfg.Conn, Token: token, Key: key}, m.cfg.Join, m.log)
	if err != nil {
		return fmt.Errorf("member: join by %s: %w", m.cfg.Join, err)
	}
	if m.credentials, err = reply.Credentials(key); err != nil {
		return err
	}
	if m.gossipKey = reply.GossipKey; len(m.gossipKey) != gossipKeyBytes {
		return fmt.Errorf("member: join by %s: a gossip key of %d bytes", m.cfg.Join, len(m.gossipKey))
	}
	if err := m.write(gossipKeyFile, m.gossipKey); err != nil {
		return err
	}
	for _, n := range reply.Nodes {
		m.addresses.set(n.ID, n.Addr)
	}
	if err := m.savePeers(); err != nil {
		return err
	}
	m.log.Info("joined a mesh", "cluster", m.Cluster(), "node", m.ID(), "by", m.cfg.Join)
	if err := m.begin(joining); err != nil {
		return err
	}
	return os.Remove(m.path(joinKeyFile))
}
