package agentlink

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
)

// Why a machine is not a member of a mesh.
var (
	// ErrNoToken: the machine is not linked yet, and no join token was given.
	ErrNoToken = errors.New("agentlink: this machine is not linked yet, and that takes --join ADDR and --token TOKEN")
	// ErrUnlinked: the mesh no longer knows the machine.
	ErrUnlinked = errors.New("agentlink: this machine is not linked any more")
)

// RoleError says that the machine's role differs from that of its token or its directory.
type RoleError struct {
	// Actual is the role that the machine has or would get, Wanted the one that was asked
	// for.
	Actual, Wanted certs.Role
	// Stored is true if Actual is the role stored in the directory, and false if it is that of
	// the token.
	Stored bool
}

func (e *RoleError) Error() string {
	if e.Stored {
		return fmt.Sprintf("the directory is that of a machine of role %s, and this one is to be of role %s", e.Actual, e.Wanted)
	}
	return fmt.Sprintf("the token is for the role %s, and this machine is to be of role %s", e.Actual, e.Wanted)
}

// membership is the machine's identity and the addresses of nodes.
type membership struct {
	dir         string
	credentials *certs.Credentials
	// addresses are those of the nodes, first the one that the owner gave.
	addresses []string
	// joined is true if the machine has joined in this run.
	joined bool
}

// openMembership loads the machine's membership, or joins with the token.
func openMembership(ctx context.Context, cfg *Config) (*membership, error) {
	s := &membership{dir: cfg.Dir}
	var err error
	s.credentials, err = certs.LoadCredentials(cfg.Dir)
	switch {
	case err == nil:
		return s, s.load(cfg.Join)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case cfg.Join == "" || cfg.Token == "":
		return nil, ErrNoToken
	}
	return s, s.enrol(ctx, cfg)
}

func (s *membership) load(join string) error {
	b, err := os.ReadFile(filepath.Join(s.dir, nodesFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("agentlink: %w", err)
	}
	if err == nil {
		if err := json.Unmarshal(b, &s.addresses); err != nil {
			return fmt.Errorf("agentlink: %s: %w", nodesFile, err)
		}
	}
	if join != "" && !slices.Contains(s.addresses, join) {
		s.addresses = append([]string{join}, s.addresses...)
	}
	if len(s.addresses) == 0 {
		return ErrNoToken
	}
	return nil
}

func (s *membership) enrol(ctx context.Context, cfg *Config) error {
	token, err := certs.ParseToken(cfg.Token)
	if err != nil {
		return err
	}
	if token.Role != cfg.Role {
		return &RoleError{Actual: token.Role, Wanted: cfg.Role}
	}
	key, err := certs.JoinKey(filepath.Join(s.dir, joinKey))
	if err != nil {
		return fmt.Errorf("agentlink: %w", err)
	}
	conn, err := socketFor(ctx, cfg.Join)
	if err != nil {
		return err
	}
	defer conn.Close()
	reply, err := mesh.EnrolWithRetry(ctx, mesh.Joiner{Conn: conn, Token: token, Key: key, Name: cfg.Name}, cfg.Join, cfg.Log)
	if err != nil {
		return fmt.Errorf("agentlink: join by %s: %w", cfg.Join, err)
	}
	if s.credentials, err = reply.Credentials(key); err != nil {
		return err
	}
	s.addresses, s.joined = []string{cfg.Join}, true
	if err := errors.Join(s.saveAddresses(reply.Nodes), certs.SaveCredentials(s.dir, s.credentials)); err != nil {
		return err
	}
	return os.Remove(filepath.Join(s.dir, joinKey))
}

// saveAddresses stores the addresses of all nodes if they have changed. The first one
// stays: it may be the only one that is reachable from outside.
func (s *membership) saveAddresses(nodes []mesh.NodeAddr) error {
	next := s.addresses[:1:1]
	for _, n := range nodes {
		if n.Addr != "" && !slices.Contains(next, n.Addr) {
			next = append(next, n.Addr)
		}
	}
	if slices.Equal(next, s.addresses) && len(next) > 1 {
		return nil
	}
	s.addresses = next
	b, err := json.Marshal(next)
	if err == nil {
		err = certs.ReplaceFile(filepath.Join(s.dir, nodesFile), b)
	}
	if err != nil {
		return fmt.Errorf("agentlink: %w", err)
	}
	return nil
}

// remove deletes the machine's membership from disk.
func (s *membership) remove() error {
	failures := certs.RemoveCredentials(s.dir)
	for _, name := range []string{nodesFile, joinKey} {
		if err := os.Remove(filepath.Join(s.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failures = errors.Join(failures, fmt.Errorf("agentlink: %w", err))
		}
	}
	return failures
}

// requestRecovery asks a node for a certificate in place of an expired one. The error is
// mesh.ErrRefused if the mesh no longer knows the machine.
func (s *membership) requestRecovery(ctx context.Context, addr string, spkiKey ed25519.PrivateKey) (mesh.EnrolReply, error) {
	conn, err := socketFor(ctx, addr)
	if err != nil {
		return mesh.EnrolReply{}, err
	}
	defer conn.Close()
	return mesh.Recover(ctx, conn, s.credentials, spkiKey, addr)
}

// recoverCertificate gets a new certificate from a node, uses it from now on, and saves it.
func (s *membership) recoverCertificate(ctx context.Context, addr string) error {
	key, err := certs.NewKey()
	if err != nil {
		return err
	}
	reply, err := s.requestRecovery(ctx, addr, key)
	if err != nil {
		return err
	}
	if err := s.credentials.Renew(tls.Certificate{Certificate: reply.Chain, PrivateKey: key}, reply.Trust); err != nil {
		return err
	}
	return certs.SaveCredentials(s.dir, s.credentials)
}

// socketFor opens a socket of the address family of addr. A dual-stack socket does not work
// on every system.
func socketFor(ctx context.Context, addr string) (*net.UDPConn, error) {
	network := "udp4"
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("agentlink: %w", err)
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err == nil && len(ips) > 0 && !slices.ContainsFunc(ips, func(ip netip.Addr) bool { return ip.Unmap().Is4() }) {
		network = "udp6"
	}
	conn, err := net.ListenUDP(network, nil)
	if err != nil {
		return nil, fmt.Errorf("agentlink: %w", err)
	}
	return conn, nil
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
