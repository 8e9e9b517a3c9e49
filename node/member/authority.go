package member

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/node/peer"
	"github.com/locusrun/locus/registry"
)

// The methods of the certificate authority. Only nodes may call them.
const (
	methodIssue = "member/issue" // certifies a key that has joined with a token
	methodRenew = "member/renew" // certifies a new key of the caller
	methodShare = "member/share" // returns the authority's keys to another voter
)

// ErrNoAuthority: no reachable node holds the authority's key.
var ErrNoAuthority = errors.New("member: no node that holds the certificate authority can be reached")

// sealed is the content of authorityFile and the reply of methodShare. There are two
// authorities during a rotation of the root.
type sealed struct {
	Authorities [][]byte `json:"authorities"`
}

func (m *Member) loadAuthorities() error {
	if err := m.keptBytes(sealKeyFile, m.sealKey[:]); err != nil {
		return err
	}
	b, err := os.ReadFile(m.path(authorityFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("member: %w", err)
	}
	var all sealed
	if err := json.Unmarshal(b, &all); err != nil {
		return fmt.Errorf("member: %s: %w", m.path(authorityFile), err)
	}
	for _, one := range all.Authorities {
		a, err := certs.OpenAuthority(one, m.sealKey)
		if err != nil {
			return fmt.Errorf("member: %s: %w", m.path(authorityFile), err)
		}
		m.authority[certs.PinOf(a.Root())] = a
	}
	return nil
}

// keep adds an authority and saves all of them.
func (m *Member) keep(a *certs.Authority) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.authority[certs.PinOf(a.Root())] = a
	return m.saveAuthorities()
}

// saveAuthorities writes the authorities to disk. m.mu is held.
func (m *Member) saveAuthorities() error {
	if err := m.keptBytes(sealKeyFile, m.sealKey[:]); err != nil {
		return err
	}
	var all sealed
	for _, a := range m.authority {
		b, err := a.Seal(m.sealKey)
		if err != nil {
			return err
		}
		all.Authorities = append(all.Authorities, b)
	}
	slices.SortFunc(all.Authorities, slices.Compare[[]byte])
	b, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("member: %w", err)
	}
	return m.write(authorityFile, b)
}

// forget drops the authorities whose root is no longer trusted.
func (m *Member) forget(trusted certs.Trust) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	pins := trusted.Pins()
	before := len(m.authority)
	for pin := range m.authority {
		if !slices.Contains(pins, pin) {
			delete(m.authority, pin)
		}
	}
	if len(m.authority) == before {
		return nil
	}
	return m.saveAuthorities()
}

// issuing returns the authority that issues certificates now; nil if this node does not
// hold it.
func (m *Member) issuing() *certs.Authority {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.authority[certs.PinOf(m.credentials.Trust().Issuer())]
}

// CanIssue reports whether this node can issue certificates.
func (m *Member) CanIssue() bool { return m.issuing() != nil }

// Methods returns the RPC methods that the member serves.
func (m *Member) Methods() map[string]mesh.Method {
	return map[string]mesh.Method{
		methodIssue: peer.JSONMethod(mesh.Control, m.serveIssue),
		methodRenew: peer.JSONMethod(mesh.Control, m.serveRenew),
		methodShare: peer.JSONMethod(mesh.Control, m.serveShare),

		methodVouch:   peer.JSONMethod(mesh.Control, m.serveVouch),
		methodRecover: peer.JSONMethod(mesh.Control, m.serveRecover),

		methodReport: m.reportMethod(),
	}
}

// issueReply is a new certificate chain with the current trust roots.
type issueReply struct {
	Chain [][]byte    `json:"chain"`
	Trust certs.Trust `json:"trust"`
}

// issueRequest names the key to certify and, if it joined with a token, the token.
type issueRequest struct {
	Token string `json:"token,omitempty"`
	SPKI  []byte `json:"spki"`
}

func (m *Member) serveRenew(ctx context.Context, from certs.Identity, q issueRequest) (issueReply, error) {
	if err := m.ready(ctx); err != nil {
		return issueReply{}, err
	}
	return m.issue(from, q.SPKI)
}

// serveIssue certifies a key that has joined with a token. It checks that in the registry
// itself and does not trust the asking node for it.
func (m *Member) serveIssue(ctx context.Context, _ certs.Identity, q issueRequest) (issueReply, error) {
	if err := m.ready(ctx); err != nil {
		return issueReply{}, err
	}
	view, err := m.registry.Fresh(ctx)
	if err != nil {
		return issueReply{}, err
	}
	token, _ := view.Token(q.Token)
	hash := keyHash(q.SPKI)
	at := slices.IndexFunc(token.Uses, func(u registry.TokenUse) bool { return u.Key == hash })
	if at < 0 {
		return issueReply{}, fmt.Errorf("member: the key has not joined with token %.40q", q.Token)
	}
	return m.issue(certs.Identity{Cluster: m.Cluster(), Role: certs.Role(token.Role), ID: string(token.Uses[at].Node)}, q.SPKI)
}

func (m *Member) issue(id certs.Identity, spki []byte) (issueReply, error) {
	a := m.issuing()
	if a == nil {
		return issueReply{}, ErrNoAuthority
	}
	key, err := certs.ParseSPKI(spki)
	if err != nil {
		return issueReply{}, err
	}
	if m.registry.View().Revoked(id.String()) {
		return issueReply{}, certs.ErrRevoked
	}
	chain, err := a.Issue(id, key, time.Now(), certs.DefaultLifetime)
	if err != nil {
		return issueReply{}, err
	}
	m.log.Info("issued a certificate", "identity", id)
	return issueReply{Chain: chain, Trust: m.credentials.Trust()}, nil
}

// voterWithin bounds the wait for one voter: the next one may answer, and revocations are
// not enforced meanwhile.
const voterWithin = 5 * time.Second

func askVoter[A, Q any](ctx context.Context, m *Member, voter registry.NodeID, method string, q Q) (A, error) {
	ctx, cancel := context.WithTimeout(ctx, voterWithin)
	defer cancel()
	return peer.CallJSON[A](ctx, m.mesh, string(voter), method, q)
}

// anyAuthority asks this node if it holds the authority, or else the voters one by one.
func anyAuthority[Q any](ctx context.Context, m *Member, method string, q Q, here func() (issueReply, error)) (issueReply, error) {
	if m.CanIssue() {
		return here()
	}
	var failures error
	for _, v := range m.registry.Members() {
		if !v.Voter || v.ID == m.ID() {
			continue
		}
		got, err := askVoter[issueReply](ctx, m, v.ID, method, q)
		if err == nil {
			return got, nil
		}
		failures = errors.Join(failures, err)
	}
	return issueReply{}, fmt.Errorf("%w: %w", ErrNoAuthority, errors.Join(failures, ctx.Err()))
}

// serveShare returns the authority's keys to another voter.
func (m *Member) serveShare(ctx context.Context, from certs.Identity, _ struct{}) (sealed, error) {
	if err := m.ready(ctx); err != nil {
		return sealed{}, err
	}
	voter := slices.ContainsFunc(m.registry.Members(), func(v registry.Member) bool { return v.Voter && string(v.ID) == from.ID })
	if !voter {
		return sealed{}, fmt.Errorf("member: %s does not vote", from.ID)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var all sealed
	for _, a := range m.authority {
		b, err := a.Export()
		if err != nil {
			return sealed{}, err
		}
		all.Authorities = append(all.Authorities, b)
	}
	m.log.Info("sent the certificate authority's keys to another voter", "node", from.ID)
	return all, nil
}

// takeAuthority fetches the authority's keys if this node is a voter and lacks any of them.
func (m *Member) takeAuthority(ctx context.Context) error {
	members := m.registry.Members()
	votes := slices.ContainsFunc(members, func(v registry.Member) bool { return v.Voter && v.ID == m.ID() })
	if !votes || m.holdsAll() {
		return nil
	}
	var failures error
	for _, v := range members {
		if !v.Voter || v.ID == m.ID() {
			continue
		}
		got, err := askVoter[sealed](ctx, m, v.ID, methodShare, struct{}{})
		if err == nil {
			err = m.takeIn(got)
		}
		if err == nil && m.holdsAll() {
			m.log.Info("received the certificate authority's keys", "from", v.ID)
			return nil
		}
		failures = errors.Join(failures, err)
	}
	return fmt.Errorf("%w: %w", ErrNoAuthority, failures)
}

func (m *Member) takeIn(got sealed) error {
	trusted := m.credentials.Trust().Roots
	for _, b := range got.Authorities {
		a, err := certs.ParseAuthority(b)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(trusted, func(root *x509.Certificate) bool { return root.Equal(a.Root()) }) {
			continue
		}
		if err := m.keep(a); err != nil {
			return err
		}
	}
	return nil
}
