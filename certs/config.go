package certs

import (
	"crypto/tls"
	"fmt"
	"slices"
)

// JoinProtocol is the ALPN protocol of the door at which machines enrol.
const JoinProtocol = "locus-join/1"

// Server accepts members of this mesh, any role, that speak one of the protocols.
// It goes on working, unchanged, when the credentials change.
//
// With TLS 1.3 a client that is refused learns so at its first read, not from its
// handshake.
func (c *Credentials) Server(protocols ...string) *tls.Config {
	return c.ServerFor(nil, protocols...)
}

// ServerFor is Server where admit, unless nil, has the last word on who may speak
// which protocol; its error refuses the peer.
func (c *Credentials) ServerFor(admit func(protocol string, peer Identity) error, protocols ...string) *tls.Config {
	config := c.config(protocols)
	config.ClientAuth = tls.RequireAnyClientCert // judged below
	config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.Certificate(), nil }
	// Unlike VerifyPeerCertificate this runs on a resumed session as well.
	config.VerifyConnection = func(state tls.ConnectionState) error {
		if err := spoken(state, protocols); err != nil {
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

// Client dials nodes of this mesh; peer, unless nil, then judges whether it is the
// one that was meant. It goes on working when the credentials change.
func (c *Credentials) Client(peer func(Identity) error, protocols ...string) *tls.Config {
	config := c.config(protocols)
	config.ServerName = ServerName
	config.InsecureSkipVerify = true // judged below, by roots that may change
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.Certificate(), nil }
	config.VerifyConnection = func(state tls.ConnectionState) error {
		if err := spoken(state, protocols); err != nil {
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

// Door is the server's side of enrolment: it asks for no certificate, and shows
// its roots too, for joiners that know no more than a pin. Its peers are
// strangers.
func (c *Credentials) Door(protocols ...string) *tls.Config {
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
	config.VerifyConnection = func(state tls.ConnectionState) error { return spoken(state, protocols) }
	return config
}

func (c *Credentials) config(protocols []string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: protocols,
		Time:       c.now,
		// A resumed session saves no round trip, and would go on with the peer's
		// certificate of back then.
		SessionTicketsDisabled: true,
	}
}

// ByProtocol is one server of several: each connection gets the first config that
// has a protocol which the client offers. A client that offers none of them is
// refused by the first config, with TLS's own alert for it.
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

// spoken refuses a connection on which none of the protocols was agreed:
// crypto/tls lets a peer through that offers none at all.
func spoken(state tls.ConnectionState, protocols []string) error {
	if len(protocols) > 0 && !slices.Contains(protocols, state.NegotiatedProtocol) {
		return fmt.Errorf("%w: agreed on %q", ErrNoProtocol, state.NegotiatedProtocol)
	}
	return nil
}

// PeerOf gives the identity of the peer of a connection that a Server or Client
// config has let through.
func PeerOf(state tls.ConnectionState) (Identity, error) {
	if len(state.PeerCertificates) == 0 {
		return Identity{}, fmt.Errorf("%w: no certificate", ErrBadIdentity)
	}
	return IdentityOf(state.PeerCertificates[0])
}
