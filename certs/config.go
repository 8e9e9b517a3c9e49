package certs

import (
	"crypto/tls"
	"fmt"
	"slices"
)

// JoinProtocol is the ALPN protocol of enrolment.
const JoinProtocol = "locus-join/1"

// Server accepts members of this mesh, of any role, that speak one of the protocols. The
// config stays valid when the credentials change.
//
// With TLS 1.3 a refused client learns of it at its first read, not from its handshake.
func (c *Credentials) Server(protocols ...string) *tls.Config {
	return c.ServerFor(nil, protocols...)
}

// ServerFor is Server with a callback: admit, unless nil, decides last which peer may speak
// which protocol, and refuses the peer with its error.
func (c *Credentials) ServerFor(admit func(protocol string, peer Identity) error, protocols ...string) *tls.Config {
	config := c.config(protocols)
	config.ClientAuth = tls.RequireAnyClientCert // verified below
	config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.Certificate(), nil }
	// Unlike VerifyPeerCertificate this runs on a resumed session as well.
	config.VerifyConnection = func(state tls.ConnectionState) error {
		if err := checkProtocol(state, protocols); err != nil {
			return err
		}
		peer, err := c.VerifyClient(state.PeerCertificates)
		if err == nil && admit != nil {
			err = admit(state.NegotiatedProtocol, peer)
		}
		return err
	}
	return config
}

// Client dials nodes of this mesh. peer, unless nil, checks that it is the intended node. The
// config stays valid when the credentials change.
func (c *Credentials) Client(peer func(Identity) error, protocols ...string) *tls.Config {
	config := c.config(protocols)
	config.ServerName = ServerName
	config.InsecureSkipVerify = true // verified below, by roots that may change
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.Certificate(), nil }
	config.VerifyConnection = func(state tls.ConnectionState) error {
		if err := checkProtocol(state, protocols); err != nil {
			return err
		}
		id, err := c.VerifyServer(state.PeerCertificates)
		if err == nil && peer != nil {
			err = peer(id)
		}
		return err
	}
	return config
}

// JoinServer is the server side of enrolment. Its peers are unauthenticated: it requests no
// certificate. It also sends its roots, for joiners that know only a pin.
func (c *Credentials) JoinServer(protocols ...string) *tls.Config {
	config := c.config(protocols)
	config.ClientAuth = tls.NoClientCert
	config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		now := c.present.Load()
		shown := now.cert
		shown.Certificate = slices.Clone(shown.Certificate)
		for _, root := range now.trust.Roots {
			shown.Certificate = append(shown.Certificate, root.Raw)
		}
		return &shown, nil
	}
	config.VerifyConnection = func(state tls.ConnectionState) error { return checkProtocol(state, protocols) }
	return config
}

func (c *Credentials) config(protocols []string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: protocols,
		Time:       c.now,
		// Resuming a session saves no round trip, and would keep using the peer's old
		// certificate.
		SessionTicketsDisabled: true,
	}
}

// ByProtocol combines several servers: each connection uses the first config that has a
// protocol which the client offers. A client that offers none of them is refused by the first
// config, with the TLS alert for it.
func ByProtocol(configs ...*tls.Config) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		SessionTicketsDisabled: true,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			for _, config := range configs {
				for _, protocol := range hello.SupportedProtos {
					if slices.Contains(config.NextProtos, protocol) {
						return config, nil
					}
				}
			}
			return configs[0], nil
		},
	}
}

// checkProtocol refuses a connection that did not negotiate one of the protocols: crypto/tls
// accepts a peer that offers none at all.
func checkProtocol(state tls.ConnectionState, protocols []string) error {
	if len(protocols) > 0 && !slices.Contains(protocols, state.NegotiatedProtocol) {
		return fmt.Errorf("%w: agreed on %q", ErrNoProtocol, state.NegotiatedProtocol)
	}
	return nil
}

// PeerOf returns the identity of the peer of a connection that a Server or Client config has
// accepted.
func PeerOf(state tls.ConnectionState) (Identity, error) {
	if len(state.PeerCertificates) == 0 {
		return Identity{}, fmt.Errorf("%w: no certificate", ErrBadIdentity)
	}
	return IdentityOf(state.PeerCertificates[0])
}
