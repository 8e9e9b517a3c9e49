package member

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
)

// joinWithin bounds all attempts to join together.
const joinWithin = time.Minute

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
	key, err := m.joinKey()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, joinWithin)
	defer cancel()
	reply, err := m.enrol(ctx, mesh.Joiner{Conn: m.cfg.Conn, Token: token, Key: key})
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

// enrol retries until the mesh has decided. Repeating it with the same key is safe: the
// token is used up once per key.
func (m *Member) enrol(ctx context.Context, joiner mesh.Joiner) (mesh.EnrolReply, error) {
	for pause := 200 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		reply, err := mesh.Enrol(ctx, joiner, m.cfg.Join)
		var unreachable *mesh.UnreachableError
		again := errors.Is(err, mesh.ErrTryLater) || errors.As(err, &unreachable) &&
			!errors.Is(err, mesh.ErrRejected) && !errors.Is(err, mesh.ErrVersion)
		if !again {
			return reply, err
		}
		m.log.Warn("the mesh cannot be joined yet; trying again", "by", m.cfg.Join, "error", err)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return reply, err
		}
	}
}

// joinKey returns the key to certify. It is on disk until the join has succeeded, so that a
// process that was interrupted gets the same membership.
func (m *Member) joinKey() (ed25519.PrivateKey, error) {
	b, err := os.ReadFile(m.path(joinKeyFile))
	if errors.Is(err, fs.ErrNotExist) {
		key, err := certs.NewKey()
		if err != nil {
			return nil, err
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return nil, fmt.Errorf("member: %w", err)
		}
		return key, m.write(joinKeyFile, der)
	}
	if err != nil {
		return nil, fmt.Errorf("member: %w", err)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(b)
	key, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, fmt.Errorf("member: %s is not a key: remove it and join again", m.path(joinKeyFile))
	}
	return key, nil
}
