package member

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/registry"
)

func keyHash(spki []byte) registry.TokenHash {
	sum := sha256.Sum256(spki)
	return registry.TokenHash(hex.EncodeToString(sum[:]))
}

// NewToken describes a join token to make.
type NewToken struct {
	Role     certs.Role
	Lifetime time.Duration
	Uses     int
	// Labels are given to the nodes that join with it.
	Labels map[string]string
	// Owner is the actor that a joining machine belongs to; for the machine roles only.
	Owner  string
	Issuer string
}

// NewToken makes a join token and records its public half in the registry.
func (m *Member) NewToken(ctx context.Context, want NewToken) (certs.Token, registry.JoinToken, error) {
	rotation, err := m.rotation()
	if err != nil {
		return certs.Token{}, registry.JoinToken{}, err
	}
	pin, err := rotation.TokenPin()
	if err != nil {
		return certs.Token{}, registry.JoinToken{}, err
	}
	token := certs.NewToken(want.Role, pin)
	out, err := m.registry.CreateToken(ctx, registry.CreateToken{
		ID: token.ID, Public: hex.EncodeToString(token.Public()), Role: string(want.Role),
		NotAfter: registry.At(time.Now().Add(want.Lifetime)), MaxUses: want.Uses, Labels: want.Labels, Owner: want.Owner, Issuer: want.Issuer,
	})
	if err != nil {
		return certs.Token{}, registry.JoinToken{}, err
	}
	if out.Result != registry.TokenCreated {
		return certs.Token{}, registry.JoinToken{}, fmt.Errorf("member: the token could not be created: %s", out.Result)
	}
	return token, out.Token, nil
}

// Enrol serves a join request: it verifies the proof of the token, has the registry use up
// the token, and has the key certified.
func (m *Member) Enrol(ctx context.Context, req mesh.EnrolRequest) (mesh.EnrolReply, error) {
	if err := m.ready(ctx); err != nil {
		return mesh.EnrolReply{}, errors.Join(mesh.ErrTryLater, err)
	}
	// The token may just have been made on another node.
	view, err := m.registry.Fresh(ctx)
	if err != nil {
		return mesh.EnrolReply{}, errors.Join(mesh.ErrTryLater, err)
	}
	token, ok := view.Token(req.TokenID)
	if !ok {
		return mesh.EnrolReply{}, errors.New("there is no such token")
	}
	public, err := hex.DecodeString(token.Public)
	if err != nil || len(public) != ed25519.PublicKeySize {
		return mesh.EnrolReply{}, fmt.Errorf("the record of the token holds no public key: %.40q", token.Public)
	}
	role := certs.Role(token.Role)
	if err := req.Verify(public, role); err != nil {
		return mesh.EnrolReply{}, err
	}
	out, err := m.registry.UseToken(ctx, registry.UseToken{
		ID: token.ID, Key: keyHash(req.SPKI), Node: registry.NodeID(newID(role)),
	})
	if err != nil {
		return mesh.EnrolReply{}, errors.Join(mesh.ErrTryLater, err)
	}
	if out.Result != registry.TokenUsed && out.Result != registry.TokenUsedBefore {
		return mesh.EnrolReply{}, fmt.Errorf("the token cannot be used: %s", out.Result)
	}
	id := certs.Identity{Cluster: m.Cluster(), Role: role, ID: string(out.Use.Node)}
	if role != certs.RoleNode {
		if err := m.link(ctx, id, token.ID, req.Name); err != nil {
			return mesh.EnrolReply{}, err
		}
	}
	got, err := anyAuthority(ctx, m, methodIssue, issueRequest{Token: token.ID, SPKI: req.SPKI}, func() (issueReply, error) { return m.issue(id, req.SPKI) })
	if err != nil {
		return mesh.EnrolReply{}, errors.Join(mesh.ErrTryLater, err)
	}
	reply := mesh.EnrolReply{Chain: got.Chain, Trust: got.Trust, Identity: id, Nodes: m.Nodes()}
	m.log.Info("enrolled a new member", "identity", id, "token", token.ID, "from", req.Remote)
	if role != certs.RoleNode {
		return reply, nil
	}
	if keys := view.GossipKeys().Keys; len(keys) > 0 {
		reply.GossipKey = keys[0]
	} else {
		reply.GossipKey = m.gossipKey
	}
	return reply, nil
}

// NewNodeID generates a random node id.
func NewNodeID() string { return newID(certs.RoleNode) }

func newID(role certs.Role) string {
	return string(role) + "-" + registry.NewRequestID().String()[:16]
}
