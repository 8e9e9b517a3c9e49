package member

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/registry"
)

// methodRecover certifies a member whose certificate has expired.
const methodRecover = "member/recover"

// recoverRequest is a member's proof of identity, with the data to verify it.
type recoverRequest struct {
	Proof    certs.RecoverRequest `json:"proof"`
	Nonce    []byte               `json:"nonce"`
	Exporter []byte               `json:"exporter"`
}

// Recover serves members whose certificate has expired. A node that was removed or a
// machine that was unlinked is not a member any more.
func (m *Member) Recover(ctx context.Context, req mesh.RecoverRequest) (mesh.EnrolReply, error) {
	if err := m.ready(ctx); err != nil {
		return mesh.EnrolReply{}, errors.Join(mesh.ErrTryLater, err)
	}
	if _, err := m.registry.Fresh(ctx); err != nil {
		return mesh.EnrolReply{}, errors.Join(mesh.ErrTryLater, err)
	}
	q := recoverRequest{Proof: req.Proof, Nonce: req.Nonce, Exporter: req.Exporter}
	id, err := m.verifyProof(q)
	if err != nil {
		return mesh.EnrolReply{}, err
	}
	got, err := anyAuthority(ctx, m, methodRecover, q, func() (issueReply, error) { return m.issue(id, req.Proof.SPKI) })
	if err != nil {
		return mesh.EnrolReply{}, errors.Join(mesh.ErrTryLater, err)
	}
	m.log.Info("renewed the expired certificate of a member", "identity", id, "from", req.Remote)
	return mesh.EnrolReply{Chain: got.Chain, Trust: got.Trust, Identity: id, Nodes: m.Nodes()}, nil
}

func (m *Member) serveRecover(ctx context.Context, _ certs.Identity, q recoverRequest) (issueReply, error) {
	if err := m.ready(ctx); err != nil {
		return issueReply{}, err
	}
	id, err := m.verifyProof(q)
	if err != nil {
		return issueReply{}, err
	}
	return m.issue(id, q.Proof.SPKI)
}

// verifyProof returns the identity that a proof is for, if it is a member's.
func (m *Member) verifyProof(q recoverRequest) (certs.Identity, error) {
	who, err := q.Proof.Verify(m.Cluster(), m.credentials.Trust().Roots, q.Nonce, q.Exporter, time.Now())
	if err != nil {
		return certs.Identity{}, err
	}
	if who.Identity.Role != certs.RoleNode {
		return who.Identity, m.checkMachine(who.Identity)
	}
	if _, ok := m.registry.View().Node(registry.NodeID(who.Identity.ID)); !ok {
		return certs.Identity{}, fmt.Errorf("member: %s is not a node of this mesh", who.Identity)
	}
	return who.Identity, nil
}

// recoverWithin bounds the attempts at startup to get a new certificate.
const recoverWithin = 20 * time.Second

// recover asks the known nodes for a new certificate if this node's has expired.
func (m *Member) recover(ctx context.Context) error {
	if !time.Now().After(m.credentials.Leaf().NotAfter) {
		return nil
	}
	m.log.Warn("this node's certificate has expired; asking the mesh for a new one", "ended", m.credentials.Leaf().NotAfter)
	ctx, cancel := context.WithTimeout(ctx, recoverWithin)
	defer cancel()
	key, err := certs.NewKey()
	if err != nil {
		return err
	}
	var failures error
	for _, other := range m.Nodes() {
		if other.ID == string(m.ID()) {
			continue
		}
		reply, err := mesh.Recover(ctx, m.cfg.Conn, m.credentials, key, other.Addr)
		if err != nil {
			failures = errors.Join(failures, err)
			continue
		}
		if err := m.credentials.Renew(tls.Certificate{Certificate: reply.Chain, PrivateKey: key}, reply.Trust); err != nil {
			return err
		}
		return m.save(m.credentials)
	}
	return fmt.Errorf("member: the certificate ended on %s and no node gives a new one: %w",
		m.credentials.Leaf().NotAfter.Format(time.DateTime), failures)
}
