package member

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/registry"
)

// methodVouch certifies a machine that has asked another node to renew its certificate.
// Only nodes may call it, and only for machines of this mesh.
const methodVouch = "member/vouch"

// vouchRequest names a machine and the key to certify.
type vouchRequest struct {
	Identity certs.Identity `json:"identity"`
	SPKI     []byte         `json:"spki"`
}

// link records a machine that has joined with a token. The registry may change its name to
// keep names unique.
func (m *Member) link(ctx context.Context, id certs.Identity, token, name string) error {
	out, err := m.registry.LinkMachine(ctx, registry.LinkMachine{ID: id.ID, Token: token, Name: machineName(name)})
	if err != nil {
		return errors.Join(mesh.ErrTryLater, err)
	}
	if out.Result != registry.MachineLinked && out.Result != registry.MachineExists {
		return fmt.Errorf("the machine cannot be linked: %s", out.Result)
	}
	return nil
}

// machineName makes a valid name of what a machine calls itself: letters, digits, dots,
// underscores and hyphens.
func machineName(wish string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '-'
	}, wish)
	if name = strings.Trim(name, "-."); name == "" {
		return "machine"
	}
	return name
}

// RenewMachine certifies a new key of a linked machine. It returns the DER chain, leaf
// first, and the trust roots.
func (m *Member) RenewMachine(ctx context.Context, id certs.Identity, spki []byte) ([][]byte, certs.Trust, error) {
	if err := m.ready(ctx); err != nil {
		return nil, certs.Trust{}, err
	}
	got, err := anyAuthority(ctx, m, methodVouch, vouchRequest{id, spki}, func() (issueReply, error) { return m.vouch(id, spki) })
	return got.Chain, got.Trust, err
}

func (m *Member) serveVouch(ctx context.Context, _ certs.Identity, q vouchRequest) (issueReply, error) {
	if err := m.ready(ctx); err != nil {
		return issueReply{}, err
	}
	return m.vouch(q.Identity, q.SPKI)
}

func (m *Member) vouch(id certs.Identity, spki []byte) (issueReply, error) {
	if err := m.checkMachine(id); err != nil {
		return issueReply{}, err
	}
	return m.issue(id, spki)
}

// checkMachine returns an error unless the identity is a machine of this mesh.
func (m *Member) checkMachine(id certs.Identity) error {
	have, ok := m.registry.View().Machine(id.ID)
	if !ok || id.Cluster != m.Cluster() || string(id.Role) != have.Role {
		return fmt.Errorf("member: %s is not a machine of this mesh", id)
	}
	return nil
}
