package member

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/registry"
)

// maintainEvery is how often maintain runs when the registry has not changed.
const maintainEvery = 5 * time.Second

// Run maintains the membership until ctx ends: it renews the certificate, follows the
// mesh's trust roots, drops the connections of revoked identities, saves the nodes'
// addresses, reports nodes that are too far away, and fetches the authority's key if this
// node is a voter.
func (m *Member) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() {
		renewer := certs.Renewer{
			Credentials: m.credentials, Log: m.log, Save: m.save,
			Request: func(ctx context.Context, spki []byte) ([][]byte, certs.Trust, error) {
				got, err := anyAuthority(ctx, m, methodRenew, issueRequest{SPKI: spki}, func() (issueReply, error) {
					return m.issue(m.credentials.Identity(), spki)
				})
				// The roots come from the registry only, in the order of its commits.
				return got.Chain, certs.Trust{}, err
			},
		}
		_ = renewer.Run(ctx) // returns only when ctx ends
	})
	m.credentials.SetRevoked(m.revoked)
	tick := time.NewTicker(maintainEvery)
	defer tick.Stop()
	away := distances{most: m.cfg.MaxRTT}
	for ctx.Err() == nil {
		away.check(m.mesh.Peers(), func(node string, roundTrip time.Duration) {
			m.log.Warn("a node is too far away for this mesh's timeouts: leaders may change all the time", "node", node, "round_trip", roundTrip, "at_most", m.cfg.MaxRTT)
		})
		view := m.registry.View()
		if err := m.maintain(ctx, view); err != nil && ctx.Err() == nil {
			m.log.Warn("the membership could not be maintained", "error", err)
		}
		select {
		case <-view.Changed():
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	all.Wait()
}

// revoked reports whether the mesh has revoked an identity.
func (m *Member) revoked(id certs.Identity) bool { return m.registry.View().Revoked(id.String()) }

func (m *Member) maintain(ctx context.Context, view registry.View) error {
	var nodes []mesh.NodeAddr
	for _, n := range view.Nodes() {
		nodes = append(nodes, mesh.NodeAddr{ID: string(n.ID), Addr: n.Addr})
	}
	m.note(nodes)
	m.mesh.SetRevoked(m.revoked)
	if err := m.followTrust(view); err != nil {
		return err
	}
	return m.takeAuthority(ctx)
}

// rotation returns the state of the rotation from the registry. Before the registry has
// one, it is steady with the root that this node trusts.
func (m *Member) rotation() (certs.Rotation, error) {
	t := m.registry.View().Trust()
	switch len(t.Roots) {
	case 0:
		return certs.Steady(m.credentials.Trust().Issuer()), nil
	case 1:
		return certs.Rotation{Phase: certs.Phase(t.Phase), Current: t.Roots[0]}, nil
	case 2:
		return certs.Rotation{Phase: certs.Phase(t.Phase), Current: t.Roots[0], Next: t.Roots[1]}, nil
	}
	return certs.Rotation{}, fmt.Errorf("%w: %d roots", certs.ErrBadTrust, len(t.Roots))
}

// followTrust takes over the registry's trust roots.
func (m *Member) followTrust(view registry.View) error {
	if len(view.Trust().Roots) == 0 {
		return nil
	}
	rotation, err := m.rotation()
	if err != nil {
		return err
	}
	trust, err := rotation.Trust()
	if err != nil {
		return err
	}
	if slices.EqualFunc(trust.Roots, m.credentials.Trust().Roots, (*x509.Certificate).Equal) {
		return nil
	}
	if err := m.credentials.SetTrust(trust); err != nil {
		return err
	}
	m.log.Info("trust roots updated", "phase", rotation.Phase, "roots", len(trust.Roots))
	if err := m.save(m.credentials); err != nil {
		return err
	}
	return m.forget(trust)
}
